/*
 * Waiting: a batch in which nothing moves spins or yields briefly, then sleeps. The waiting batch
 * looks for failures, for mismatches and for its timeout, and reports a long wait.
 */
#ifndef RD_WAIT_H
#define RD_WAIT_H

#include "comm/batch.h"

/* One wait: the time in which nothing has moved. All 0 at first. */
struct rd_wait {
	int rounds;
	bool slept;
	struct rd_activity *published; /* in which the wait is seen by others; NULL: in none */
	int64_t since_ns; /* 0: the clock has not been read */
	int64_t searched_ns; /* of that time: when links were searched for mismatches last */
	int reported_ms; /* of that time: when it was reported as slow last; 0: it was not */
};

/*
 * One round of a wait, after a round of steps in which nothing moved. Returns RD_MOVED, RD_IDLE or
 * an error, which has ended the batch. *sleep_ms: 0, or for how long the caller is to sleep: it
 * calls rd_wait_arm(), steps the tasks once more, since a message that came before does not wake
 * it, then rd_wait_sleep() if nothing moved, and rd_wait_disarm().
 */
int rd_wait_round(const struct rd_batch *batch, struct rd_wait *wait, int *sleep_ms);

void rd_wait_arm(const struct rd_batch *batch);
void rd_wait_sleep(const struct rd_batch *batch, int sleep_ms);
void rd_wait_disarm(const struct rd_batch *batch);

/* Something has moved: the next wait spins longer, or less long, after this one. */
void rd_wait_end(struct rondo_comm *comm, struct rd_wait *wait);

#endif
