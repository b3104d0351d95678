/* A user-defined operation: of a handle (api/op.h), or a call's copy of one. */
#ifndef RD_USER_OP_H
#define RD_USER_OP_H

#include "rondo.h"

struct rd_user_op {
	/* Counts the operations created on this comm: the same on every rank. The handle is
	   RONDO_OP_OWN + serial. */
	unsigned serial;
	rondo_combine combine; /* NULL: a sum of inputs that were multiplied before */
	void *argument;
	size_t element_size; /* of opaque elements; 0: those of the call's type */
	rondo_type type; /* of the factor */
	double factor; /* memory for one element of that type */
	/* The input times the factor, where the output has no room for that. A call's copy owns
	   it. */
	void *scaled;
};

/* Copies an operation for a call. NULL: no memory. */
struct rd_user_op *rd_user_op_copy(const struct rd_user_op *op);
void rd_user_op_destroy(struct rd_user_op *op);

#endif
