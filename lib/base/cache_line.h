/* Memory that begins at a line of the cache. */
#ifndef RD_CACHE_LINE_H
#define RD_CACHE_LINE_H

#include <stdlib.h>
#include <string.h>

#include "base/arith.h"

#define RD_CACHE_LINE 64

/* Returns `size` bytes, all 0, that free() frees; NULL: there is no memory. */
static inline void *rd_calloc_lines(size_t size)
{
	size_t whole = rd_round_up(size, RD_CACHE_LINE);
	void *memory = aligned_alloc(RD_CACHE_LINE, whole);

	return memory ? memset(memory, 0, whole) : NULL;
}

#endif
