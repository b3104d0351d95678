/*
 * The plans of all ranks in two bytes a step: a rank has thousands of steps, but few that differ in
 * more than their chunk. A simulation needs no chunks. 10,000 ranks of a ring have 2e8 steps.
 */
#ifndef PLAN_PACKED_H
#define PLAN_PACKED_H

#include "tuner/schedule.h"

/* Steps that are read at once: there is room for them behind the last. */
#define PACKED_NEAR 16

/* A step, as far as its time depends on it. */
struct packed_step {
	struct rd_event event;
	int peer, to; /* the ranks from which it takes a message, and to which it puts one; -1 */
	int takes, puts; /* the queues of these messages; -1: none */
};

struct packed_plan {
	uint16_t *steps; /* indices into `distinct` */
	int count;
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
