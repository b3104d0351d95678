/*
 * The simulator's queue of events, by virtual time: a binary heap. Events of the same time come
 * out in the order in which they were put in.
 */
#ifndef RD_EVENT_QUEUE_H
#define RD_EVENT_QUEUE_H

#include <stdbool.h>
#include <stdint.h>

struct rd_timed_event {
	uint64_t time_ns;
	uint64_t number; /* set by rd_event_queue_put() */
	int kind, subject; /* the simulator sets them */
};

struct rd_event_queue {
	struct rd_timed_event *heap;
	int count, capacity;
	uint64_t numbers;
};

/* Starts from all zero. */
int rd_event_queue_put(struct rd_event_queue *queue, struct rd_timed_event event);
/* The next event; false: there is none. */
bool rd_event_queue_take(struct rd_event_queue *queue, struct rd_timed_event *event);
void rd_event_queue_finish(struct rd_event_queue *queue);

#endif
