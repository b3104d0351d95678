/*
 * Libraries that are loaded at run time, and only where they are needed: one binary serves machines
 * with and without them.
 */
#ifndef RD_LIBRARY_H
#define RD_LIBRARY_H

#include <stdbool.h>
#include <stddef.h>

#include "base/fork_lock.h"

/* Has static storage. */
struct rd_library {
	const char *file; /* "libssl.so.3" */
	const char *reason, *remedy; /* the words around "FILE cannot be loaded (why)" */
	const char *const *names; /* of its functions */
	void *functions; /* a structure of function pointers alone, in the order of names */
	size_t count;
	void (*start)(void); /* called once, when all are found; NULL: nothing is */
	bool loaded;
	struct rd_fork_lock lock;
};

/* Loads it, and finds its functions, unless that is done. Any thread. RONDO_UNSUPPORTED, with the
   reason, where it cannot; the next call tries again. */
int rd_library_load(struct rd_library *library);

#endif
