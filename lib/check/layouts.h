/* Layouts for proofs: ranks in any order along the line, in groups of any size. */
#ifndef LAYOUTS_H
#define LAYOUTS_H

#include "rondo/layout.h"

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

#endif
