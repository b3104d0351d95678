/*
 * The name that somebody may have meant: the nearest of those there are, by letters that are
 * inserted, left out, changed, or swapped with the next, in either case.
 */
#ifndef RD_NEAREST_H
#define RD_NEAREST_H

#include <stdbool.h>

struct rd_nearest {
	const char *wanted;
	const char *name; /* the nearest so far; "" before the first */
	unsigned distance; /* its */
};

#define RD_NEAREST(text) \
	{ \
		.wanted = (text), .name = "", .distance = ~0u \
	}

/* Another name that there is; it must outlive `nearest`. */
void rd_nearest_try(struct rd_nearest *nearest, const char *name);

#define RD_NEAREST_TEXT 64

/* "; did you mean NAME?", or "" where none is near: for the end of a reason. Returns text. */
const char *rd_nearest_text(const struct rd_nearest *nearest, char text[RD_NEAREST_TEXT]);

/* Whether two names are the same but for case, "_" and "-": "allreduce", "AllReduce", "all_reduce".
 */
bool rd_same_name(const char *a, const char *b);

#endif
