/*
 * The messages under way from one rank to another: when each arrives.
 *
 * A queue has a line of the caches. No bits share a byte, and no code changes two neighbours:
 * reading both would wait for the store of one.
 */
#ifndef PLAN_QUEUES_H
#define PLAN_QUEUES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Messages of a queue in the queue itself. */
#define QUEUE_FEW_SHIFT 2
#define QUEUE_FEW (1 << QUEUE_FEW_SHIFT)
struct queue {
	int64_t *arrivals; /* [1 << shift]; `few` at first */
	int64_t few[QUEUE_FEW];
	unsigned put, taken; /* messages ever, modulo 2^32 */
	uint8_t shift;
	bool awaited; /* its receiver waits for a message of it */
	bool light; /* messages of its route wait for no others */
	int route; /* in the routes' hops; -1: no link is shared */
	int sender, receiver;
};

_Static_assert(sizeof(struct queue) == 64, "a queue has a line");

/* All zero, for queue_init(); NULL: no memory. */
struct queue *queues_create(int count);
void queues_destroy(struct queue *queues, int count);

/* Without a route. */
void queue_init(struct queue *queue, int sender, int receiver);
/* Makes room for one more. False: no memory. */
bool queue_grow(struct queue *queue);

static inline int64_t *queue_at(const struct queue *queue, unsigned number)
{
	return &queue->arrivals[number & ((1u << queue->shift) - 1)];
}

static inline bool queue_is_empty(const struct queue *queue)
{
	return queue->put == queue->taken;
}

/* False: no memory. */
static inline bool queue_put(struct queue *queue, int64_t arrival_ps)
{
	if (queue->put - queue->taken == 1u << queue->shift && !queue_grow(queue))
		return false;
	*queue_at(queue, queue->put++) = arrival_ps;
	return true;
}

/* It is not empty. */
static inline int64_t queue_take(struct queue *queue)
{
	return *queue_at(queue, queue->taken++);
}

#endif
