/* Copies that are about where the bytes end up, not only that they do. */
#ifndef RD_COPY_H
#define RD_COPY_H

#include <stddef.h>

/*
 * Copies past this core's caches, to memory that another core reads next: the line is not fetched
 * from that core first, and does not have to be fetched from here later. For small sizes memcpy() is
 * better. The two must not overlap.
 */
void rd_copy_past(void *into, const void *from, size_t size);

/* What was copied past is complete for other cores before anything that is stored after this. */
void rd_copy_past_end(void);

#endif
