/*
 * The simulator's queue of events, by virtual time: a binary heap. Events of the same time come
 * out in the order in which they were put in.
 */
#ifndef RD_EVENT_QUEUE_H
#define RD_EVENT_QUEUE_H

#include <stdbool.h>
#include <stdint.h>

struct rd_event {
	uint64_t time_ns;
	uint64_t number; /* set by rd_events_put() */
	int kind, subject; /* the simulator sets them */
};

struct rd_events {
	struct rd_event *heap;
	int count, capacity;
	uint64_t numbers;
};

/* Starts from all zero. */
int rd_events_put(struct rd_events *events, struct rd_event event);
/* The next event; false: there is none. */
bool rd_events_take(struct rd_events *events, struct rd_event *event);
void rd_events_finish(struct rd_events *events);

#endif
