/* Layouts for tests: ranks in any order along the line, in groups of any size. */
#ifndef LAYOUTS_H
#define LAYOUTS_H

#include <stdlib.h>

#include "rondo/layout.h"

#define LAYOUT_MOST 1024

struct any_layout {
	struct rd_layout layout;
	int order[LAYOUT_MOST], group[LAYOUT_MOST];
};

/* xorshift32 (G. Marsaglia, "Xorshift RNGs", 2003); *seed is not 0. */
static inline unsigned layout_random(unsigned *seed, unsigned most)
{
	*seed ^= *seed << 13;
	*seed ^= *seed >> 17;
	*seed ^= *seed << 5;
	return *seed % most;
}

static inline void layout_shuffle(struct any_layout *any, unsigned *seed)
{
	for (int i = any->layout.size - 1; i > 0; i--) {
		int k = layout_random(seed, i + 1), rank = any->order[i];

		any->order[i] = any->order[k];
		any->order[k] = rank;
	}
}

/* Groups of these sizes (0 at the end), the ranks shuffled, or (seed 0) in order. */
static inline const struct rd_layout *layout_of(
	struct any_layout *any, const int *sizes, unsigned seed)
{
	int size = 0, group = 0, place = 0;

	for (int i = 0; sizes[i]; i++)
		size += sizes[i];
	any->layout = (struct rd_layout){ .size = size, .order = any->order, .group = any->group };
	for (int rank = 0; rank < size; rank++)
		any->order[rank] = rank;
	if (seed)
		layout_shuffle(any, &seed);
	for (; sizes[group]; group++)
		for (int i = 0; i < sizes[group]; i++)
			any->group[any->order[place++]] = group;
	any->layout.group_count = group;
	return &any->layout;
}

/* Groups of 1 to `most` ranks; the last may be cut short. */
static inline const struct rd_layout *layout_any(
	struct any_layout *any, int size, int most, unsigned seed)
{
	int sizes[LAYOUT_MOST + 1], count = 0;

	for (int left = size; left > 0; left -= sizes[count++]) {
		sizes[count] = 1 + (int)layout_random(&seed, most);
		if (sizes[count] > left)
			sizes[count] = left;
	}
	sizes[count] = 0;
	return layout_of(any, sizes, seed);
}

#endif
