/* Layouts for tests, with their memory. */
#ifndef ANY_LAYOUT_H
#define ANY_LAYOUT_H

#include <stdlib.h>

#include "check/layouts.h"

/* Ranks in the largest layout. */
#define LAYOUT_MOST 1024

struct any_layout {
	struct rd_layout layout;
	int order[LAYOUT_MOST], group[LAYOUT_MOST];
};

static inline const struct rd_layout *layout_of(
	struct any_layout *any, const int *sizes, unsigned seed)
{
	int size = 0;

	for (int i = 0; sizes[i]; i++)
		size += sizes[i];
	if (size > LAYOUT_MOST)
		abort();
	any->layout = (struct rd_layout){ .order = any->order, .group = any->group };
	layout_fill(&any->layout, sizes, seed);
	return &any->layout;
}

static inline const struct rd_layout *layout_any(
	struct any_layout *any, int size, int most, unsigned seed)
{
	int sizes[LAYOUT_MOST + 1];

	if (size > LAYOUT_MOST)
		abort();
	any->layout = (struct rd_layout){ .order = any->order, .group = any->group };
	layout_draw(&any->layout, sizes, size, most, seed);
	return &any->layout;
}

#endif
