/*
 * Calls any collective of rondo.h by its number.
 */
#ifndef CALL_COLLECTIVE_H
#define CALL_COLLECTIVE_H

#include "rondo.h"
#include "rondo/collective.h"

/* Blocking where stream is NULL. op and root go only to the collectives that have them. */
int call_collective(rondo_comm *comm, enum rd_collective collective, const void *in, void *out,
	size_t count, rondo_type type, rondo_op op, int root, rondo_stream *stream);

#endif
