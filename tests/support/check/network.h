/* The simulated network: the links of all ranks, virtual time, and the queue of events. */
#ifndef RD_NETWORK_H
#define RD_NETWORK_H

#include "check/event_queue.h"
#include "check/simulator.h"
#include "draw.h"
#include "simulated_links.h"

/* Behind those of links. */
enum rd_network_event {
	RD_EVENT_START = LINK_EVENTS, /* a rank makes the call */
	RD_EVENT_DEATH, /* of a rank */
};

struct rd_network {
	const struct rd_simulation *set;
	uint64_t now_ns;
	struct draw random;
	struct rd_event_queue events;
	struct simulated_links links;
	int error; /* of the simulation itself: no memory */
};

/* Creates the links that plans[set->size] use. The plans name existing peers. set and random are
   set; all else is zero. rd_network_finish() must follow, also after an error. */
int rd_network_connect(struct rd_network *network, const struct rd_plan *const *plans);
void rd_network_finish(struct rd_network *network);

/* Adds an event of a rank. */
void rd_network_add_event(
	struct rd_network *network, enum rd_network_event kind, int rank, uint64_t time_ns);
/* A delay of at most set->jitter_ns. */
uint64_t rd_network_delay(struct rd_network *network);

#endif
