/*
 * The exact result of a collective on random numbers of any type, on one rank, and the error that
 * rounding may cause.
 */
#ifndef REFERENCE_H
#define REFERENCE_H

#include <stddef.h>
#include <stdint.h>

#include "rondo.h"
#include "rondo/collective.h"
#include "world.h"

struct reference {
	/* The call, as this rank makes it; the caller sets these. */
	enum rd_collective collective;
	rondo_type type;
	rondo_op op;
	size_t count;
	int root;
	int rank, size; /* set by init */

	char *inputs
		[WORLD_MAX]; /* [size * count] elements of every rank's input, where they matter */
	double *total, *slack; /* [2 * count]: for elements 0.., then for this rank's block */
	char *integers; /* the same, as it lies in memory, where the type is an integer's */
};

/* For calls of at most `most` elements. */
void reference_init(struct reference *r, int rank, int size, size_t most);
void reference_finish(struct reference *r);

/* Fills this rank's whole input, and of the others' the first block and this rank's. Call it for
   each type and count; a product has its own numbers. */
void reference_fill(struct reference *r);

/* Combines the inputs by the operation: total and slack, or integers. */
void reference_combine(struct reference *r);

/* How many elements of a block of the result are right, from the first on. */
size_t reference_right(const struct reference *r, const char *out, size_t block);

/* A hash of x. */
uint64_t reference_mix(uint64_t x);

#endif
