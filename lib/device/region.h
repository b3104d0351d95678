/*
 * Memory that local peers can address directly: rondo_mem_alloc(). Each region is a memfd of its
 * own, mapped here, and by a peer once it has been offered over a link. A forked child has private
 * copies: pages that it has not written may show what the parent writes.
 */
#ifndef RD_REGION_H
#define RD_REGION_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct rd_region {
	uint64_t id; /* never 0; no two regions of any process have the same */
	char *base;
	size_t size; /* whole pages */
	int fd; /* -1: a forked child's, of the parent's region */
};

/* A new region; of no bytes, NULL. An error names rondo_mem_alloc(), the public function. */
int rd_region_alloc(void **memory, size_t size);
/* False: no region begins at this address. */
bool rd_region_free(void *memory);

/* The region in which all of [at, at + size) lies; false: in none, or in a parent's. */
bool rd_region_find(const void *at, size_t size, struct rd_region *region);

bool rd_region_exists(uint64_t id);

/* Changes whenever a region comes or goes: what was found before then must be looked for again. */
uint64_t rd_regions_version(void);

#endif
