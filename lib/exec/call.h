/*
 * A call: the arguments of one rank's call of a collective.
 */
#ifndef RD_CALL_H
#define RD_CALL_H

#include "plan/collective.h"
#include "exec/vcounts.h"

struct rd_call {
	struct rd_problem problem;
	rondo_type type;
	/* The operation of the executor: a sum, where the terms have an operation of their own. */
	rondo_op op;
	/* elements in a block; approximate, where the terms give each block its length */
	size_t count;
	const void *in;
	void *out;
	uint32_t number;
	const struct rd_terms *terms; /* NULL: an ordinary call; outlives the exec */
	/* elements in a block of the whole call that this call is a part of; 0: not a part */
	size_t whole;
};

#endif
