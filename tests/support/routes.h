/*
 * Worlds that sum over transports of the test's own.
 */
#ifndef ROUTES_H
#define ROUTES_H

#include "transports/transports.h"
#include "world.h"

/* The reach() of a transport that any pair prefers to shm. */
int routes_reach(const struct rd_place *here, const struct rd_place *there);

/* Runs a sum on all ranks. Returns what they wrote to standard error, until the next run. */
const char *routes_run(const struct world *world, int *failed, struct rank_outcome *outcomes);

/* Runs it, asserts that no rank fails, and that standard error does not hold `part`. */
void routes_expect_none(const struct world *world, const char *part);

#endif
