/*
 * Layout of a comm's ranks, for writers of plans. It has a line along which neighbours are near,
 * and the groups (hosts) between which links cost more. The same on every rank. The ranks' places
 * determine it. Without a layout (NULL), an algorithm takes the ranks as numbered, in one group.
 */
#ifndef RONDO_LAYOUT_H
#define RONDO_LAYOUT_H

struct rd_layout {
	int size;
	int group_count;
	int *order; /* [size]: ranks along the line; those of one group follow each other */
	int *group; /* [size], by rank: its group, counted along the line */
};

#endif
