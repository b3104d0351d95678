/* Tables that grow, an element at a time. */
#ifndef RD_GROW_H
#define RD_GROW_H

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

/* Makes room for one more element of this size. table: the address of the pointer to the first.
   False: no memory, and the table is as it was. */
static inline bool rd_grow(void *table, int count, int *capacity, size_t size)
{
	int more = *capacity ? 2 * *capacity : 8;
	void *elements;

	if (count < *capacity)
		return true;
	memcpy(&elements, table, sizeof(elements));
	elements = realloc(elements, (size_t)more * size);
	if (!elements)
		return false;
	memcpy(table, &elements, sizeof(elements));
	*capacity = more;
	return true;
}

#endif
