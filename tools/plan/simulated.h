/* Simulations of a collective as the command line asks for them. */
#ifndef PLAN_SIMULATED_H
#define PLAN_SIMULATED_H

#include "problem.h"
#include "simulate.h"

struct plan_simulated {
	const struct plan_problem *made;
	const struct plan_options *options;
	const struct rd_algorithm *algorithm;
	struct packed *packed;
	struct network *network; /* the caller's; NULL: none */
	int *slow;
	int64_t *deaths_ps;
	const int64_t *starts_ps; /* the caller's; NULL: all ranks begin at 0 */
	simulation_watch *watch; /* of the runs; NULL: none */
	void *watch_context;
	/* The last run's: */
	size_t size;
	uint64_t pieces;
	struct simulation simulation;
};

/* Returns whether its messages are all that leaves a host: direct access reads memory, which no
   other host's ranks can. */
static inline bool plan_can_simulate(
	const struct plan_problem *made, const struct rd_algorithm *algorithm)
{
	return !algorithm->direct_access || made->layout.group_count == 1;
}

/* Returns 0, or an error with its reason where it cannot be simulated. */
int plan_simulated_check(const struct plan_problem *made, const struct rd_algorithm *algorithm);

/* Writes the plans. `network` (NULL: none) outlives it. Returns 0 or an error with its reason. */
int plan_simulated_create(struct plan_simulated *simulated, const struct plan_problem *made,
	const struct plan_options *options, const struct rd_algorithm *algorithm,
	struct network *network);
/* Simulates the call for blocks of this size. Returns 0 or an error with its reason: one is that
   the ranks wait for each other for ever, though none was killed. */
int plan_simulated_run(struct plan_simulated *simulated, size_t size);
/* The steps of such a run: those of all pieces on all ranks; INT64_MAX: more. */
int64_t plan_simulated_steps(const struct plan_simulated *simulated, size_t size);
void plan_simulated_destroy(struct plan_simulated *simulated);

#endif
