#include "check/event_queue.h"

#include <stdlib.h>

#include "base/error.h"
#include "base/grow.h"

static bool before(const struct rd_timed_event *a, const struct rd_timed_event *b)
{
	if (a->time_ns != b->time_ns)
		return a->time_ns < b->time_ns;
	return a->number < b->number;
}

int rd_event_queue_put(struct rd_event_queue *queue, struct rd_timed_event event)
{
	int i;

	if (!rd_grow(&queue->heap, queue->count, &queue->capacity, sizeof(event)))
		return rd_fail(RONDO_MEMORY, "no memory for %d events", queue->count + 1);
	event.number = queue->numbers++;
	for (i = queue->count++; i > 0; i = (i - 1) / 2) {
		if (!before(&event, &queue->heap[(i - 1) / 2]))
			break;
		queue->heap[i] = queue->heap[(i - 1) / 2];
	}
	queue->heap[i] = event;
	return 0;
}

/* The earlier child of a place in the heap; count or more: it has none. */
static int earlier_child(const struct rd_event_queue *queue, int i)
{
	int child = 2 * i + 1;

	if (child + 1 < queue->count && before(&queue->heap[child + 1], &queue->heap[child]))
		child++;
	return child;
}

bool rd_event_queue_take(struct rd_event_queue *queue, struct rd_timed_event *event)
{
	const struct rd_timed_event *last;
	int i = 0;

	if (!queue->count)
		return false;
	*event = queue->heap[0];
	last = &queue->heap[--queue->count];
	for (int child = earlier_child(queue, 0); child < queue->count;
		child = earlier_child(queue, i)) {
		if (!before(&queue->heap[child], last))
			break;
		queue->heap[i] = queue->heap[child];
		i = child;
	}
	queue->heap[i] = *last;
	return true;
}

void rd_event_queue_finish(struct rd_event_queue *queue)
{
	free(queue->heap);
}
