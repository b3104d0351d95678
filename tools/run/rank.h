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

struct rank {
	int number; /* RANK */
	pid_t pid;
	int pidfd;
	bool ended;
	int status; /* once ended: 0, the exit status, or 128 + signal */
	bool by_signal;
	struct lines out, err; /* err.fd is -1 where both go the same way */
};

/* What a rank is started with. */
struct rank_start {
	char **command;
	int rendezvous_fd; /* inherited by this rank; -1: none */
	const sigset_t *mask; /* signals it starts with blocked */
	const struct rlimit *files; /* its limit on open files */
	struct sink *out, *err; /* NULL: it inherits ours */
	const char *tag;
	bool reads_input; /* our stdin is its own; else /dev/null */
	/* Called in the child, to set the environment. */
	void (*set_environment)(const struct rank *rank, const void *argument);
	const void *argument;
};

/*
 * Starts it. False, having said why in one line, when it cannot be: *status is then the exit status
 * that a shell would give.
 */
bool rank_start(struct rank *rank, int number, const struct rank_start *start, int *status);

/* To the rank and all in its process group. */
void rank_signal(const struct rank *rank, int signal);

/* When pidfd is readable: ends what is left of its group, takes its status and its last words. */
void rank_reap(struct rank *rank);

/* "rank 2 (pid 123) was killed by signal 9 (Killed)" */
void rank_describe_end(const struct rank *rank, char *text, size_t size);

#endif
