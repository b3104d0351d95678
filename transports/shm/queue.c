#include "transports/shm/queue.h"

#include <stdlib.h>
#include <string.h>

#include "transports/shm/socket.h"

static void append(struct rd_shm_queue *queue, struct rd_shm_queued *queued)
{
	queued->next = NULL;
	if (queue->last)
		queue->last->next = queued;
	else
		queue->first = queued;
	queue->last = queued;
}

bool rd_shm_queue_add(struct rd_shm_queue *queue, const void *packet, size_t size, int fd)
{
	struct rd_shm_queued *queued = calloc(1, sizeof(*queued));

	if (!queued) {
		rd_shm_fd_close(&fd);
		return false;
	}
	memcpy(&queued->packet, packet, size);
	queued->size = size;
	queued->fd = fd;
	append(queue, queued);
	return true;
}

struct rd_shm_queued *rd_shm_queue_take(struct rd_shm_queue *queue)
{
	struct rd_shm_queued *queued = queue->first;

	if (!queued)
		return NULL;
	queue->first = queued->next;
	if (!queue->first)
		queue->last = NULL;
	return queued;
}

void rd_shm_queue_move(struct rd_shm_queue *from, struct rd_shm_queue *to, uint64_t comm_id)
{
	struct rd_shm_queue kept = { NULL, NULL };
	struct rd_shm_queued *queued;

	while ((queued = rd_shm_queue_take(from)))
		append(queued->packet.any.comm_id == comm_id ? to : &kept, queued);
	*from = kept;
}

void rd_shm_queued_free(struct rd_shm_queued *queued)
{
	rd_shm_fd_close(&queued->fd);
	free(queued);
}

void rd_shm_queue_finish(struct rd_shm_queue *queue)
{
	struct rd_shm_queued *queued;

	while ((queued = rd_shm_queue_take(queue)))
		rd_shm_queued_free(queued);
}
