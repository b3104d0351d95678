/* One collective, with its result compared with the reference's, and guards around its buffer. */
#ifndef CHECKED_CALL_H
#define CHECKED_CALL_H

#include <stdbool.h>
#include <stddef.h>

#include "reference.h"
#include "rondo.h"
#include "world.h"

/* The collectives that have a reference: from 0 on. */
#define CHECKED_COLLECTIVES (RD_ALL_TO_ALL + 1)

struct checked_memory {
	char *in, *out;
};

/* Room for calls of at most `size` bytes in all blocks, where the world has its memory. */
struct checked_memory checked_memory_get(const struct rank_env *env, size_t size);
void checked_memory_put(const struct rank_env *env, struct checked_memory *memory);

/*
 * Makes the call of the reference, which has been filled and combined, on this comm of its ranks.
 * On a stream it waits for the stream. Returns 0, or the call's error, or 1: the result is wrong,
 * and has been reported. The results that all ranks have are hashed into *env->number.
 */
int checked_call(struct rank_env *env, rondo_comm *comm, const struct reference *r, bool in_place,
	rondo_stream *stream, struct checked_memory *memory);

/* Reports a failed call: returns as world_report(). */
int checked_call_wrong(struct rank_env *env, const struct reference *r, bool in_place,
	const char *what, size_t at);

#endif
