/* The name that somebody may have meant: the nearest of those there are. */
#ifndef TOOLS_NEAREST_H
#define TOOLS_NEAREST_H

#include <stdbool.h>

struct nearest {
	const char *wanted;
	const char *name; /* the nearest so far */
	unsigned distance; /* its: letters inserted, left out, changed or swapped */
};

#define NEAREST(text) \
	{ \
		.wanted = (text), .name = "", .distance = ~0u \
	}
#define NEAREST_TEXT 64

/* Another name that there is; it must outlive `nearest`. */
void nearest_try(struct nearest *nearest, const char *name);
/* "; did you mean NAME?", or "" where none is near. Returns text. */
const char *nearest_text(const struct nearest *nearest, char text[NEAREST_TEXT]);

/* Whether two names are the same but for case, "_" and "-". */
bool nearest_same(const char *a, const char *b);

#endif
