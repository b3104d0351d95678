/* The groups of a layout, along its line. For algorithms that need at least two groups. */
#ifndef RD_GROUPS_H
#define RD_GROUPS_H

#include "plan/plan.h"

static inline bool rd_groups_exist(const struct rd_problem *problem)
{
	return problem->layout && problem->layout->group_count >= 2;
}

/* The group's first place in the line. Its members follow each other, and so do the groups. */
static inline int rd_group_first(const struct rd_layout *layout, int group)
{
	int low = 0, high = layout->size;

	while (low < high) {
		int middle = low + (high - low) / 2;

		if (layout->group[layout->order[middle]] < group)
			low = middle + 1;
		else
			high = middle;
	}
	return low;
}

/* The place past the group that begins at this one: for a walk over all groups. */
static inline int rd_group_end(const struct rd_layout *layout, int first)
{
	int end = first + 1;

	while (end < layout->size &&
		layout->group[layout->order[end]] == layout->group[layout->order[first]])
		end++;
	return end;
}

static inline int rd_group_size(const struct rd_layout *layout, int group)
{
	return rd_group_first(layout, group + 1) - rd_group_first(layout, group);
}

/* The rank of the group's member i, for any i from 0: members take turns. */
static inline int rd_group_member(const struct rd_layout *layout, int group, int i)
{
	return layout->order[rd_group_first(layout, group) + i % rd_group_size(layout, group)];
}

/* The index of a rank among the members of its group. */
static inline int rd_group_place(const struct rd_layout *layout, int rank)
{
	int i = 0;

	while (rd_group_member(layout, layout->group[rank], i) != rank)
		i++;
	return i;
}

/* The members of the largest group. */
static inline int rd_group_largest(const struct rd_layout *layout)
{
	int most = 0;

	for (int first = 0, end = 0; first < layout->size; first = end) {
		end = rd_group_end(layout, first);
		most = end - first > most ? end - first : most;
	}
	return most;
}

#endif
