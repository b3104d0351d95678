/*
 * The plans of all ranks, as runs of equal steps: a rank has thousands of steps, but few that
 * differ in more than their chunk. A simulation needs no chunks. 10,000 ranks of a ring have 2e8
 * steps.
 */
#ifndef PLAN_PACKED_H
#define PLAN_PACKED_H

#include "tuner/schedule.h"

/* A step, as far as its time depends on it. */
struct packed_step {
	struct rd_event event;
	int peer, to; /* the ranks from which it takes a message, and to which it puts one; -1 */
	int takes, puts; /* the queues of these messages; -1: none */
};

/* Equal steps, one after the other. */
struct packed_run {
	uint16_t number; /* in `distinct` */
	uint16_t times; /* at least 1 */
};

struct packed_plan {
	struct packed_run *runs;
	int run_count, count; /* count: steps */
	struct packed_step *distinct;
	int distinct_count;
	int first_queue, queue_count; /* of the messages that it puts: a queue for each receiver */
};

struct packed {
	int size, parts;
	int distinct_count, queue_count; /* of all ranks */
	struct packed_plan *plans; /* [size] */
	int *receivers; /* [queue_count] */
};

/* Writes the plans on all processors, and packs them. Returns 0 or an error with its reason. */
int packed_create(struct packed **packed, const struct rd_algorithm *algorithm,
	const struct rd_problem *problem);
void packed_destroy(struct packed *packed);

#endif
