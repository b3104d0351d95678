/* The calls of a world: which collective, plans of which algorithm, and the right results. */
#ifndef SIMULATION_CALLS_H
#define SIMULATION_CALLS_H

#include "simulated.h"

#define CALLS_MAX 6

/* One call, as all ranks make it. */
struct call_plan {
	struct simulated_job job; /* without memory */
	const struct rd_algorithm *algorithm;
	int hosts;
};

/* One rank's side of a call. */
struct rank_call {
	struct rd_call call;
	const struct rd_plan *plans[RD_CHANNELS_MAX];
	char *memory[2], *scratch;
	uint64_t *marks;
	bool differs; /* from those of the other ranks */
};

struct world;
struct sim_rank;

void calls_draw(struct world *world, uint64_t seed);
/* Prepares this rank's side of its present call. */
void calls_begin(struct world *world, struct sim_rank *rank);
/* It has succeeded: checks the results. */
void calls_check(struct world *world, struct sim_rank *rank);
void calls_end(struct sim_rank *rank);

#endif
