/*
 * The links of a simulation's network as its messages use them.
 *
 * A link is light if its ranks fill at most a quarter of its time, when each sends as often as its
 * steps allow. It delays no message, and puts none in order.
 *
 * Another link merges if messages come to it from several links or ranks, or from a light link to
 * which they did: it has to put them in order. To all others they come in the order in which the
 * one before sent them, so they pass such a link as soon as they have passed that one.
 */
#ifndef PLAN_ROUTES_H
#define PLAN_ROUTES_H

#include <stdbool.h>

#include "network.h"
#include "queues.h"

struct route_link {
	int64_t bytes_ps, latency_ps; /* bytes_ps: what a message with bytes takes */
	int64_t free_ps; /* when it has sent all that came */
	uint64_t messages, filled; /* that it sent; filled: of these, with bytes */
	double load; /* the most of its time that its ranks fill */
	int from; /* the last link before it, or ~rank */
	int rank; /* the last one that `load` has */
	int first; /* for its user, -1 at first */
	bool many; /* there are several */
};

struct route_hop {
	int link : 30; /* -1: the route's end */
	bool light : 1, merges : 1; /* the link's; known once routes_finish() was called */
};

struct routes {
	struct route_link *links; /* [network->link_count] */
	struct route_hop *hops; /* of all routes */
	int hop_count, hop_room;
};

/* Makes the links, for messages of this many bytes. Returns 0 or an error. */
int routes_create(struct routes *routes, const struct network *network, uint64_t bytes);
/* Adds the routes of a rank's messages to other hosts, and sets where each queue's begins. From one
   of these messages to the next take at least gap_ps. Returns 0 or an error with its reason: the
   network lacks a route. */
int routes_add(struct routes *routes, const struct network *network, const int *hosts,
	int64_t gap_ps, struct queue *queues, int count);
/* Once the routes of all queues are added: finds light queues. Returns the least time of the other
   messages from a link that merges to the next such link, or to the route's end; INT64_MAX: none
   merges. */
int64_t routes_finish(struct routes *routes, struct queue *queues, int count);
/* The time that a message with bytes takes over light links; -1: the route has others. */
int64_t routes_light_ps(const struct routes *routes, int first);
/* Counts the messages of a light queue. */
void routes_count(struct routes *routes, const struct queue *queue);
void routes_destroy(struct routes *routes);

#endif
