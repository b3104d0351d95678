/* Layouts for tests: ranks in any order along the line, in groups of any size. */
#ifndef LAYOUTS_H
#define LAYOUTS_H

#include <stdlib.h>

#include "rondo/layout.h"

/* Ranks in the largest layout below, which has memory of its own. */
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

static inline void layout_shuffle(struct rd_layout *layout, unsigned *seed)
{
	for (int i = layout->size - 1; i > 0; i--) {
		int k = layout_random(seed, i + 1), rank = layout->order[i];

		layout->order[i] = layout->order[k];
		layout->order[k] = rank;
	}
}

/* Groups of these sizes (0 at the end), the ranks shuffled, or (seed 0) in order. The layout's
   arrays have room for all of them. */
static inline void layout_fill(struct rd_layout *layout, const int *sizes, unsigned seed)
{
	int group = 0, place = 0;

	layout->size = 0;
	for (int i = 0; sizes[i]; i++)
		layout->size += sizes[i];
	for (int rank = 0; rank < layout->size; rank++)
		layout->order[rank] = rank;
	if (seed)
		layout_shuffle(layout, &seed);
	for (; sizes[group]; group++)
		for (int i = 0; i < sizes[group]; i++)
			layout->group[layout->order[place++]] = group;
	layout->group_count = group;
}

/* Groups of 1 to `most` ranks; the last may be cut short. `sizes` has room for size + 1. */
static inline void layout_draw(
	struct rd_layout *layout, int *sizes, int size, int most, unsigned seed)
{
	int count = 0;

	for (int left = size; left > 0; left -= sizes[count++]) {
		sizes[count] = 1 + (int)layout_random(&seed, most);
		if (sizes[count] > left)
			sizes[count] = left;
	}
	sizes[count] = 0;
	layout_fill(layout, sizes, seed);
}

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
