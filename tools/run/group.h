/*
 * The ranks of this node in one attempt: starts them, passes on their output, and ends them all
 * when one fails.
 */
#ifndef RUN_GROUP_H
#define RUN_GROUP_H

#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/resource.h>

#include "run/base/polls.h"
#include "run/failure.h"
#include "run/logs.h"
#include "run/options.h"
#include "run/orphans.h"
#include "run/output/console.h"
#include "run/rank.h"
#include "run/world.h"

struct group {
	const struct options *options;
	const struct world *world;
	const struct processors *processors;
	struct console *console;
	struct logs *logs;
	const struct orphans *orphans;
	int64_t job_start_ms; /* on the monotonic clock */
	int rendezvous_fd; /* inherited by rank 0; -1: rank 0 listens itself */
	int secret_fd; /* inherited by all; -1: none */
	sigset_t mask; /* signals that are blocked in the ranks */
	struct rlimit files; /* the ranks' limit on open files */

	struct rank *ranks; /* [world->local_size] */
	int started; /* ranks started, from ranks[0] */
	int alive;
	bool ending; /* the ranks end because we ended them, not by themselves */
	bool failed, succeeded; /* a rank has, each */
	struct failure failure; /* once failed: the first; a death by signal goes before an exit */
	pid_t left; /* of a rank that SIGKILL did not end; 0: none */
	/* Deadlines on the monotonic clock, in ms; 0: none. leave_at: for the end after SIGKILL. */
	int64_t term_at, kill_at, leave_at;
	int first_poll; /* of the ranks', three each */
};

/* Our open files for each rank: its pidfd, our ends of its outputs, and its logs. */
int group_files_of_rank(const struct options *options);

/*
 * Starts the ranks of an attempt. The caller has set the members above `ranks`. False, with
 * one line on stderr, where a rank cannot be started: *status is then the exit status of a shell,
 * and those that run have been killed; the caller still waits for their end.
 */
bool group_start(struct group *group, int *status);

/* Whether the attempt has failed: a rank has; with --keep-going, all have, and ended. */
bool group_has_failed(const struct group *group);

/* Sends the signal to all ranks. */
void group_signal(const struct group *group, int signal);

/* Sends the signal, and SIGKILL after the options' grace. */
void group_end(struct group *group, int signal);

/* The attempt is over: ends the ranks, unless they are ending; `at_once`, or after the time that
   they have to log what they saw. */
void group_stop(struct group *group, bool at_once);

/* Sends SIGKILL. A rank that is there GROUP_LEAVE_MS later is left, with a line: the kernel may
   keep it until a file server answers. */
#define GROUP_LEAVE_MS 10000
void group_kill(struct group *group);

void group_add_polls(struct group *group, struct polls *polls);
void group_take_polls(struct group *group, const struct polls *polls);

/* The next moment, in ms of the monotonic clock, that group_on_clock() waits for; 0: none. */
int64_t group_deadline(const struct group *group);
void group_on_clock(struct group *group, int64_t now_ms);

/* Kills the ranks and waits for their end, where poll() of them all cannot. */
void group_abandon(struct group *group);

/* At SIGCHLD: reaps what ranks left and what has ended since. */
void group_reap_orphans(struct group *group);

/* Once no rank is alive: kills what ranks left, prints unfinished lines, and frees. The failure
   stays. */
void group_finish(struct group *group);

#endif
