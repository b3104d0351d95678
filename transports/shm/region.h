/*
 * Regions of a peer's memory that shm maps here. Each is a memfd, sealed so that no process can
 * shrink it while others map it. It arrives over the pair's connection with a notice.
 */
#ifndef RD_SHM_REGION_H
#define RD_SHM_REGION_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* A region that the peer has offered. */
struct rd_shm_region {
	uint64_t id;
	void *base; /* NULL: mmap() failed, or the memfd was invalid */
	size_t size;
	struct rd_shm_region *next;
};

/* A message on an open connection: offers a region (with its memfd), or withdraws it. */
struct rd_shm_notice {
	uint32_t magic;
	uint32_t offers; /* 1: offered; 0: withdrawn */
	uint64_t id, size;
};

/* Returns whether the memfd is sealed against shrinking, and has this size. */
bool rd_shm_sealed(int fd, size_t size);

/* Send the peer a notice. `fd` stays the caller's. False: not sent. */
bool rd_shm_region_offer(int socket, uint64_t id, int fd, size_t size);
bool rd_shm_region_withdraw(int socket, uint64_t id);

/* Executes a notice of `size` bytes; fd stays the caller's. False: the bytes are no notice. */
bool rd_shm_regions_update(
	struct rd_shm_region **regions, const struct rd_shm_notice *notice, size_t size, int fd);

/* Finds a region by id; NULL: none. */
const struct rd_shm_region *rd_shm_region_find(const struct rd_shm_region *regions, uint64_t id);

/* Unmaps all regions. */
void rd_shm_regions_finish(struct rd_shm_region **regions);

#endif
