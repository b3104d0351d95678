/*
 * Packets of shm that wait, with their descriptors: for the peer to have room, or for the thread
 * that uses a pair.
 */
#ifndef RD_SHM_QUEUE_H
#define RD_SHM_QUEUE_H

#include "transports/shm/card.h"

struct rd_shm_queued {
	struct rd_shm_queued *next;
	union rd_shm_packet packet;
	size_t size;
	int fd; /* -1: none */
};

/* All 0 at first. */
struct rd_shm_queue {
	struct rd_shm_queued *first, *last;
};

/* Takes ownership of fd. False: no memory, and it is closed. */
bool rd_shm_queue_add(struct rd_shm_queue *queue, const void *packet, size_t size, int fd);
/* The first one is the caller's then. NULL: none. */
struct rd_shm_queued *rd_shm_queue_take(struct rd_shm_queue *queue);
/* Moves those of a comm to the end of another queue. */
void rd_shm_queue_move(struct rd_shm_queue *from, struct rd_shm_queue *to, uint64_t comm_id);
/* Closes the descriptor, if it is still there, and frees. */
void rd_shm_queued_free(struct rd_shm_queued *queued);
void rd_shm_queue_finish(struct rd_shm_queue *queue);

#endif
