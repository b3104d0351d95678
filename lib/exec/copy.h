/* Copies between cores: about where the bytes end up and come from, not only that they do. */
#ifndef RD_COPY_H
#define RD_COPY_H

#include <stddef.h>
#include <string.h>

/* From so many bytes on. */
#define RD_COPY_WIDE_MIN (2 << 10)

/*
 * For RD_COPY_WIDE_MIN bytes and more: by the widest ordinary stores that this processor has. The C
 * library copies so much by `rep movsb`, which writes lines that another core has read at 13 GB/s
 * where these do it at 21 (and reads them from there at 14 against 17; cores 200 ns apart).
 * Chosen with the reductions (reduce.c), which have such stores too.
 */
void rd_copy_wide(void *into, const void *from, size_t size);

/* The two must not overlap. */
static inline void rd_copy(void *into, const void *from, size_t size)
{
	if (size >= RD_COPY_WIDE_MIN)
		rd_copy_wide(into, from, size);
	else if (size > 0)
		memcpy(into, from, size);
}

/*
 * Copies past this core's caches, to memory that another core reads next: the line is not fetched
 * from that core first, and does not have to be fetched from here later. For small sizes memcpy()
 * is better. The two must not overlap.
 */
void rd_copy_past(void *into, const void *from, size_t size);

/* What was copied past is complete for other cores before anything that is stored after this. */
void rd_copy_past_end(void);

#endif
