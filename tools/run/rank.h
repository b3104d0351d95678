/*
 * One rank of the job: a process in a process group of its own, so that what it starts can be
 * ended with it.
 */
#ifndef RUN_RANK_H
#define RUN_RANK_H

#include <signal.h>
#include <stdbool.h>
#include <sys/resource.h>
#include <sys/types.h>

#include "run/lines.h"
#include "run/options.h"
#include "run/world.h"

struct rank {
	int number; /* RANK */
	pid_t pid;
	int pidfd;
	bool ended;
	int status; /* once ended: 0, the exit status, or 128 + signal */
	bool by_signal;
	struct lines out, err; /* err.fd is -1 if both outputs are one */
};

/* The start of a rank. */
struct rank_start {
	const struct options *options;
	const struct world *world;
	int rendezvous_fd; /* inherited by rank 0; -1: rank 0 listens itself */
	const sigset_t *mask; /* signals that are blocked in it */
	const struct rlimit *files; /* its limit on open files */
	struct sink *out, *err; /* NULL: it inherits ours */
	const char *tag;
	bool reads_input; /* it inherits our stdin; else it reads /dev/null */
};

/*
 * Starts it. False, with one line on stderr, when that fails: *status is then the exit status of a
 * shell.
 */
bool rank_start(struct rank *rank, int local_rank, const struct rank_start *start, int *status);

/* Sends the signal to the rank's process group. */
void rank_signal(const struct rank *rank, int signal);

/* Call it when pidfd is readable: kills the rest of its group, sets status, reads its last output.
 */
void rank_reap(struct rank *rank);

/* Writes "rank 2 (pid 123) was killed by signal 9 (Killed)". */
void rank_describe_end(const struct rank *rank, char *text, size_t size);

#endif
