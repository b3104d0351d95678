/* Copies that are about where the bytes end up, not only that they do. */
#ifndef RD_COPY_H
#define RD_COPY_H

#include <stddef.h>

/*
 * Copies past this core's caches, to memory that another core reads next: the line is not fetched
 * from that core first, and does not have to be fetched from here later. Complete, also for other
 * cores, on return. For small sizes memcpy() is better. The two must not overlap.
 */
void rd_copy_past(void *into, const void *from, size_t size);

#endif
