/*
 * How the ranks of a comm lie to each other, for those who write plans: a line along which neighbours
 * are near, and the groups (hosts) between which links are dear. The same on every rank. Made from the
 * ranks' places; an algorithm that is given none (NULL) takes the ranks as they are numbered, in one
 * group.
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
