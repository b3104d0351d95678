/*
 * Worlds that sum over transports of the test's own.
 */
#ifndef ROUTES_H
#define ROUTES_H

#include "transports/transports.h"
#include "world.h"

/* The reach() of a transport that any pair prefers to shm. */
int routes_reach(const struct rd_place *here, const struct rd_place *there);

/* The listen() and open() of a transport that is shm by another name. */
int routes_listen(const struct rd_transport *transport, struct rd_endpoint **endpoint,
	const struct rd_local *local, unsigned char *card, size_t *card_size);
int routes_open(struct rd_endpoint *endpoint, int peer, int channel, const unsigned char *card,
	size_t card_size, struct rd_link **link);

/* Runs a sum on all ranks. Returns what they wrote to standard error, until the next run. */
const char *routes_run(const struct world *world, int *failed, struct rank_outcome *outcomes);

/* Runs it, asserts that no rank fails, and that standard error does not hold `part`. */
void routes_expect_none(const struct world *world, const char *part);

#endif
