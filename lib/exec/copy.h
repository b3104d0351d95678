/* Copies between cores, with control over the caches that the bytes end up in. */
#ifndef RD_COPY_H
#define RD_COPY_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "exec/reduce.h"

/* Copies `size` bytes. The buffers must not overlap. */
static inline void rd_copy(void *into, const void *from, size_t size)
{
	uint64_t first, last;

	if (size >= RD_COPY_WIDE_MIN) {
		rd_copy_wide(into, from, size);
	} else if (size - sizeof(first) <= sizeof(last)) {
		/* 8 to 16 bytes, by two words that may overlap: without a call. */
		memcpy(&first, from, sizeof(first));
		memcpy(&last, (const char *)from + size - sizeof(last), sizeof(last));
		memcpy(into, &first, sizeof(first));
		memcpy((char *)into + size - sizeof(last), &last, sizeof(last));
	} else if (size > 0) {
		memcpy(into, from, size);
	}
}

/*
 * Copies past this core's caches, to memory that another core reads next. The line is not fetched
 * from that core first, and need not be fetched from this core later. For small sizes memcpy() is
 * better. The buffers must not overlap.
 */
void rd_copy_past(void *into, const void *from, size_t size);

/* Orders rd_copy_past() before later stores, as seen by other cores. */
void rd_copy_past_end(void);

#endif
