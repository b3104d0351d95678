/*
 * The links of a simulation's network as its messages use them.
 *
 * A link merges if messages come to it from several links or ranks: it has to put them in order.
 * To all others they come in the order in which the one before sent them, so they pass such a link
 * as soon as they have passed that one.
 */
#ifndef PLAN_ROUTES_H
#define PLAN_ROUTES_H

#include <stdbool.h>

#include "network.h"

struct route_link {
	int64_t bytes_ps, latency_ps; /* bytes_ps: what a message with bytes takes */
	int64_t free_ps; /* when it has sent all that came */
	uint64_t messages, filled; /* that it sent; filled: of these, with bytes */
	int from; /* the link before it, or ~rank */
	int first; /* for its user, -1 at first */
	bool merges;
};

struct route_hop {
	int link : 31; /* -1: the route's end */
	bool merges : 1; /* the link does; known once routes_finish() was called */
};

struct routes {
	struct route_link *links; /* [network->link_count] */
	struct route_hop *hops; /* of all routes */
	int hop_count, hop_room;
};

/* Makes the links, for messages of this many bytes. Returns 0 or an error. */
int routes_create(struct routes *routes, const struct network *network, uint64_t bytes);
/* Adds the route of a rank's messages between two hosts. It begins in hops[*first]. Returns 0 or an
   error with its reason: the network has no such route. */
int routes_add(struct routes *routes, const struct network *network, int rank, int from_host,
	int to_host, int *first);
/* Once all routes are added, for each: returns the least time from a link of it that merges to the
   next such link, or to its end; INT64_MAX: none merges. */
int64_t routes_finish(struct routes *routes, int first);
void routes_destroy(struct routes *routes);

#endif
