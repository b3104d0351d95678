/* User-defined operations: handles on a comm, numbered in the order of their creation. */
#ifndef RD_USER_OP_H
#define RD_USER_OP_H

#include "exec/exec.h"

/* The most bytes of an opaque element, which must also fit a message (RONDO_PIECE). */
#define RD_ELEMENT_MAX 4096

struct rd_made_op {
	struct rd_user_op op;
	struct rd_made_op *next;
};

/* The operation of that handle; NULL: there is none. */
const struct rd_user_op *rd_op_find(const struct rondo_comm *comm, rondo_op handle);

/* RONDO_INVALID where the number is no type's. The reason names the function: name + variant. */
int rd_type_check(rondo_type type, const char *name, const char *variant);

/* RONDO_INVALID, or RONDO_UNSUPPORTED, where the operation cannot do this count of this type. */
int rd_op_check(const struct rd_user_op *op, rondo_type type, size_t size, size_t piece_size);

/* Multiplies the call's input by the factor of its operation. The result goes to the call's
   output where that has room, else to memory of the operation; it becomes the call's input. */
int rd_op_scale(struct rd_call *call);

void rd_ops_destroy(struct rondo_comm *comm);

#endif
