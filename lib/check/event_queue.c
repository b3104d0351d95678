#include "check/event_queue.h"

#include <stdlib.h>

#include "base/error.h"

static bool before(const struct rd_event *a, const struct rd_event *b)
{
	if (a->time_ns != b->time_ns)
		return a->time_ns < b->time_ns;
	return a->number < b->number;
}

static int grow(struct rd_events *events)
{
	int capacity = events->capacity ? 2 * events->capacity : 64;
	struct rd_event *heap = realloc(events->heap, capacity * sizeof(*heap));

	if (!heap)
		return rd_fail(RONDO_MEMORY, "no memory for %d events", capacity);
	events->heap = heap;
	events->capacity = capacity;
	return 0;
}

int rd_events_put(struct rd_events *events, struct rd_event event)
{
	int i;

	if (events->count == events->capacity) {
		int err = grow(events);

		if (err)
			return err;
	}
	event.number = events->numbers++;
	for (i = events->count++; i > 0; i = (i - 1) / 2) {
		if (!before(&event, &events->heap[(i - 1) / 2]))
			break;
		events->heap[i] = events->heap[(i - 1) / 2];
	}
	events->heap[i] = event;
	return 0;
}

/* The earlier child of a place in the heap; count or more: it has none. */
static int earlier_child(const struct rd_events *events, int i)
{
	int child = 2 * i + 1;

	if (child + 1 < events->count && before(&events->heap[child + 1], &events->heap[child]))
		child++;
	return child;
}

bool rd_events_take(struct rd_events *events, struct rd_event *event)
{
	const struct rd_event *last;
	int i = 0;

	if (!events->count)
		return false;
	*event = events->heap[0];
	last = &events->heap[--events->count];
	for (int child = earlier_child(events, 0); child < events->count;
		child = earlier_child(events, i)) {
		if (!before(&events->heap[child], last))
			break;
		events->heap[i] = events->heap[child];
		i = child;
	}
	events->heap[i] = *last;
	return true;
}

void rd_events_finish(struct rd_events *events)
{
	free(events->heap);
}
