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

#include "run/failure.h"
#include "run/logs.h"
#include "run/options.h"
#include "run/output/console.h"
#include "run/output/lines.h"
#include "run/processors.h"
#include "run/world.h"

struct rank {
	int number, local_rank; /* RANK, LOCAL_RANK */
	pid_t pid;
	int pidfd;
	bool ended;
	bool held; /* it has ended, and a debugger has its status */
	bool left; /* by rank_leave(): counts as ended */
	int status; /* once ended: 0, the exit status, or 128 + signal */
	bool by_signal;
	struct rank_logs logs;
	struct lines out, err; /* with fd -1 if it does not come through us, or both are one */
	struct tail tail; /* of stderr, if that comes through us */
};

/* The start of a rank. */
struct rank_start {
	const struct options *options;
	const struct world *world;
	const struct processors *processors; /* of all ranks of this node */
	int rendezvous_fd; /* inherited by rank 0; -1: rank 0 listens itself */
	int secret_fd; /* inherited; -1: none */
	const sigset_t *mask; /* signals that are blocked in it */
	const struct rlimit *files; /* its limit on open files */
	struct console *console;
	const struct logs *logs;
	bool reads_input; /* it inherits our stdin; else it reads /dev/null */
};

/*
 * Starts it. False, with one line on stderr, when that fails: *status is then the exit status of a
 * shell.
 */
bool rank_start(struct rank *rank, int local_rank, const struct rank_start *start, int *status);

/* Sends the signal to the rank's process group. */
void rank_signal(const struct rank *rank, int signal);

/*
 * Call it when pidfd is readable: kills the rest of its group, sets status, reads its last output.
 * False where a debugger has yet to take the rank's status: SIGCHLD comes then.
 */
bool rank_reap(struct rank *rank);

/* For a rank that SIGKILL does not end: it counts as ended, with status 0. */
void rank_leave(struct rank *rank);

/* Fills in all that is known of the end of a rank that failed, but its time, node and host. */
void rank_failure(const struct rank *rank, const struct logs *logs, struct failure *failure);

/* Once it has ended: prints an unfinished line, and closes its files. */
void rank_finish(struct rank *rank);

#endif
