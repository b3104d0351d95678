/*
 * A call: what one rank asks for when it calls a collective.
 */
#ifndef RD_CALL_H
#define RD_CALL_H

#include "plan/collective.h"
#include "exec/vcounts.h"

struct rd_call {
	struct rd_problem problem;
	rondo_type type;
	/* What the executor does: a sum, where the terms have an operation of their own. */
	rondo_op op;
	size_t count; /* elements in a block; about as many, where the terms give each its length */
	const void *in;
	void *out;
	uint32_t number;
	const struct rd_terms *terms; /* NULL: an ordinary call; outlives the exec */
	size_t whole; /* elements in a block of the call that this is a part of; 0: of none */
};

#endif
