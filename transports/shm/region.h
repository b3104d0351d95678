/*
 * Regions of a peer's memory that shm maps here. Each is a memfd, sealed so that no process can
 * shrink it while others map it. It arrives over the connection with a notice.
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

/* A packet that offers a region (with its memfd) to the peer in a comm, or withdraws it. */
struct rd_shm_notice {
	uint32_t magic;
	uint32_t offers; /* 1: offered; 0: withdrawn */
	uint64_t comm_id;
	uint64_t id, size;
};

/* Returns whether the memfd is sealed against shrinking, and has this size. */
bool rd_shm_sealed(int fd, size_t size);

struct rd_shm_notice rd_shm_notice_of(bool offers, uint64_t comm_id, uint64_t id, size_t size);
/* Returns whether a packet of `size` bytes is a notice. */
bool rd_shm_notice_valid(const struct rd_shm_notice *notice, size_t size);

/* Executes a notice; fd stays the caller's. */
void rd_shm_regions_update(
	struct rd_shm_region **regions, const struct rd_shm_notice *notice, int fd);

/* Finds a region by id; NULL: none. */
const struct rd_shm_region *rd_shm_region_find(const struct rd_shm_region *regions, uint64_t id);

/* Unmaps all regions. */
void rd_shm_regions_finish(struct rd_shm_region **regions);

#endif
