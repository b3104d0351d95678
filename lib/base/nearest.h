/*
 * Finds the known name nearest to a mistyped one, by edit distance. An edit inserts, leaves out or
 * changes a letter, or swaps it with the next. Case does not count.
 */
#ifndef RD_NEAREST_H
#define RD_NEAREST_H

#include <stdbool.h>

struct rd_nearest {
	const char *wanted;
	const char *name; /* the nearest so far; "" before the first */
	unsigned distance; /* the edit distance of `name` */
};

#define RD_NEAREST(text) \
	{ \
		.wanted = (text), .name = "", .distance = ~0u \
	}

/* Compares one more known name; it must outlive `nearest`. */
void rd_nearest_try(struct rd_nearest *nearest, const char *name);

#define RD_NEAREST_TEXT 64

/* Writes "; did you mean NAME?", or "" where no name is near, for the end of a reason. Returns
   text. */
const char *rd_nearest_text(const struct rd_nearest *nearest, char text[RD_NEAREST_TEXT]);

/* Returns whether two names differ at most in case, "_" and "-": "allreduce", "AllReduce",
   "all_reduce". */
bool rd_same_name(const char *a, const char *b);

#endif
