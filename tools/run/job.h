/*
 * A job on this node, once its ranks run: passes on their output and signals, and ends them all
 * when one fails.
 */
#ifndef RUN_JOB_H
#define RUN_JOB_H

#include <poll.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/resource.h>

#include "run/environment.h"
#include "run/lines.h"
#include "run/options.h"
#include "run/rank.h"

/* Polled files of the job itself: its signals, stdout and stderr. */
#define JOB_FILES 3

struct job {
	struct options options;
	struct rank *ranks; /* [options.local_size] */
	int started; /* ranks started, from ranks[0] */
	int alive;
	struct sink out, err;
	struct sink *messages; /* for our own lines: &err, or &out where both are one */
	int signal_fd;
	sigset_t mask; /* signals blocked before ours were */
	struct environment environment;
	bool abandoned; /* a rank could not be started, or poll() failed */
	int signal; /* the signal that ended the job; 0: none */
	const struct rank *culprit; /* the rank whose status becomes the job's */
	int64_t term_at, kill_at; /* deadlines on the monotonic clock, in ms; 0: none */
	int rank_files; /* open files for each rank: its pidfd, and our ends of its outputs */
	struct rlimit files; /* the limit on open files that we were given, and restore in ranks */
	struct pollfd *polls; /* [JOB_FILES + rank_files * options.local_size] */
};

/* Sends the signal to all started ranks. */
void job_signal(const struct job *job, int signal);

/* Returns when all ranks have ended and their output is written. Sets abandoned, signal,
   culprit. */
void job_run(struct job *job);

#endif
