/*
 * Right plans, and what a test does to spoil them.
 */
#ifndef MUTANTS_H
#define MUTANTS_H

#include "simulated.h"

/* Three ranks' plans of a collective, right until a test spoils them. */
struct world three(const char *algorithm, enum rd_collective collective);

/* Expects that the checker refuses them, with this very reason; destroys the world. */
void expect_refused(struct world *world, const char *reason);

/* FLUSHes go on naming the steps that they named, but for the dropped one. */
void drop_step(struct rd_plan *plan, int dropped);
/* The step and the one after it. */
void swap_steps(struct rd_plan *plan, int first);

#endif
