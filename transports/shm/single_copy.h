/*
 * Single copy (fifo.h): messages that stay in the sender's memory, where the receiver reads them,
 * unless the sender is first and copies them into their rooms.
 */
#ifndef RD_SHM_SINGLE_COPY_H
#define RD_SHM_SINGLE_COPY_H

#include "transports/shm/fifo.h"

/* Counts the posts that are done; copies those that the peer has left unread for a while, or all of
   them (at_once). True: one is done. */
bool rd_shm_settle_posts(struct rd_shm_link *link, bool at_once);

/* Reads the next message by a single copy. True: it has been read, now or before. */
bool rd_shm_read_post(struct rd_shm_link *link, uint32_t flag, void *into, size_t size);

#endif
