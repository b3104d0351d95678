/* Arrays that grow by one element after the other. */
#ifndef PLAN_ARRAYS_H
#define PLAN_ARRAYS_H

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

/* Makes room for one more element behind `count` of this size. `array` is the address of the
   array's pointer, which may move. False: there is no memory, and the array is as it was. */
static inline bool plan_grow(void *array, int count, int *room, size_t size)
{
	int wanted = *room ? 2 * *room : 64;
	void *elements;

	if (count < *room)
		return true;
	memcpy(&elements, array, sizeof(elements));
	elements = realloc(elements, (size_t)wanted * size);
	if (!elements)
		return false;
	memcpy(array, &elements, sizeof(elements));
	*room = wanted;
	return true;
}

#endif
