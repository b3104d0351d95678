/*
 * The regions of a peer's memory that shm maps here: each is a memfd, sealed so that nobody can
 * shrink it under another's feet, which came over the pair's connection with a notice.
 */
#ifndef RD_SHM_REGION_H
#define RD_SHM_REGION_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* A region that the peer has offered. */
struct rd_shm_region {
	uint64_t id;
	void *base; /* NULL: what was offered could not be mapped */
	size_t size;
	struct rd_shm_region *next;
};

/* On an open connection: here is a region of mine (with its memfd), or there it goes. */
struct rd_shm_notice {
	uint32_t magic;
	uint32_t offers; /* 1: offered; 0: withdrawn */
	uint64_t id, size;
};

/* Sealed against shrinking, and of this size? */
bool rd_shm_sealed(int fd, size_t size);

/* Tell the peer. False: it could not be told. */
bool rd_shm_region_offer(int socket, uint64_t id, int fd, size_t size);
bool rd_shm_region_withdraw(int socket, uint64_t id);

/* Does what `size` bytes that came say; fd stays the caller's. False: that is no notice. */
bool rd_shm_region_heed(
	struct rd_shm_region **regions, const struct rd_shm_notice *notice, size_t size, int fd);

/* NULL: there is none of this id. */
const struct rd_shm_region *rd_shm_region_find(const struct rd_shm_region *regions, uint64_t id);

/* Unmaps them all. */
void rd_shm_regions_finish(struct rd_shm_region **regions);

#endif
