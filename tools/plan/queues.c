#include "queues.h"

#include <stdlib.h>
#include <string.h>

struct queue *queues_create(int count)
{
	size_t size = ((size_t)count + 1) * sizeof(struct queue);
	struct queue *queues = aligned_alloc(sizeof(*queues), size);

	return queues ? memset(queues, 0, size) : NULL;
}

void queue_init(struct queue *queue, int sender, int receiver)
{
	*queue = (struct queue){
		.arrivals = queue->few,
		.shift = QUEUE_FEW_SHIFT,
		.route = -1,
		.sender = sender,
		.receiver = receiver,
	};
}

bool queue_grow(struct queue *queue)
{
	struct queue longer = *queue;

	longer.shift++;
	longer.arrivals = malloc(sizeof(*longer.arrivals) << longer.shift);
	if (!longer.arrivals)
		return false;
	for (unsigned i = queue->taken; i != queue->put; i++)
		*queue_at(&longer, i) = *queue_at(queue, i);
	if (queue->arrivals != queue->few)
		free(queue->arrivals);
	queue->arrivals = longer.arrivals;
	queue->shift = longer.shift;
	return true;
}

void queues_destroy(struct queue *queues, int count)
{
	for (int i = 0; queues && i < count; i++)
		if (queues[i].arrivals != queues[i].few)
			free(queues[i].arrivals);
	free(queues);
}
