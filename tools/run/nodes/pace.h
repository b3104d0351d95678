/*
 * How soon one attempt may follow another, and nodes come into one: attempts that end early make
 * pauses that double. Else a node that dies again and again would start an attempt with each
 * return, and none would come to an end.
 */
#ifndef RUN_NODES_PACE_H
#define RUN_NODES_PACE_H

#include <stdbool.h>
#include <stdint.h>

/* An attempt that ran this long begins the count anew. */
#define PACE_STEADY_MS 60000
/* After the second short attempt, and at most. */
#define PACE_FIRST_MS 100
#define PACE_MOST_MS 60000
/* Short attempts, one after the other, that ended because nodes came or went. */
#define PACE_NODES_MAX 100

struct pace {
	int64_t start_ms; /* of the last attempt */
	int attempts; /* short ones, one after the other */
	int by_nodes; /* those of them that ended because nodes came or went */
};

void pace_start(struct pace *pace, int64_t now_ms);
/* False: this was one short attempt too many that nodes have caused. */
bool pace_end(struct pace *pace, bool by_nodes, int64_t now_ms);
int pace_pause_ms(const struct pace *pace);

#endif
