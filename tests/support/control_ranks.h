/*
 * Ranks with control connections over real sockets. Each runs a script: in a thread, or in a forked
 * process where it is to die.
 */
#ifndef CONTROL_RANKS_H
#define CONTROL_RANKS_H

#include <pthread.h>
#include <stdint.h>

#include "base/error.h"
#include "base/settings.h"
#include "bootstrap/control.h"

#define RANKS_MAX 8

struct control_rank {
	int rank, size;
	int turn; /* in which it leaves */
	struct rd_settings settings;
	struct rd_identity self;
	struct rd_activity activity;
	_Atomic int failed;
	int wake_fd;
	struct rd_control *control;
	int error; /* of the first call that failed */
	char reason[RD_REASON_SIZE];
	uint64_t comm_id;
	uint64_t digest;
	pthread_t thread;
	int (*script)(struct control_rank *rank);
};

extern struct control_rank ranks[RANKS_MAX];
extern pthread_barrier_t together; /* of all ranks of control_run() */

/* A socket connected to 127.0.0.1:port; -1: it cannot. */
int control_connect(int port);

/* A rank that connects to 127.0.0.1:port. */
void control_prepare_rank(struct control_rank *rank, int number, int size, int port,
	int (*script)(struct control_rank *));
/* Prepares ranks[size]. Rank 0 gets a socket that listens already, as from a launcher. Returns the
   port. */
int control_prepare(int size, int (*script)(struct control_rank *));

/* Steps of scripts: 0, or the error, which the rank keeps if it is the first. */
int control_keep_error(struct control_rank *rank, int error);
int control_join(struct control_rank *rank);
int control_join_and_open(struct control_rank *rank);
int control_leave(struct control_rank *rank);
/* Ready with limits that differ between ranks, and checked: rank r has messages of 1000 - r bytes
   and 100 - r rails, and rank 1 maps no memory. Does not keep the error. */
int control_ready(struct control_rank *rank);
/* Sleeps until the control connection wakes this rank, and keeps the verdict. */
void control_await_verdict(struct control_rank *rank);
/* A script: joins, opens and leaves. */
int control_no_call(struct control_rank *rank);

/* Runs the scripts of ranks from to to, exclusively, in threads. */
void control_start(int from, int to);
void control_wait(int from, int to);
/* Runs the scripts of all ranks, with `together`. */
void control_run(int size);

/* Expects this error, and one reason with this text in it, on these ranks. */
void control_expect(int from, int to, int error, const char *part);

/* The threads of this process. */
int count_threads(void);

#endif
