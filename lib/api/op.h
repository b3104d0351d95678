/*
 * The operations of calls: handles of user-defined ones, which live on a comm and are numbered in
 * the order of their creation, and checks.
 */
#ifndef RD_OP_H
#define RD_OP_H

#include "exec/user_op.h"

struct rondo_comm;

/* The most bytes of an opaque element, which must also fit a message (RONDO_PIECE). */
#define RD_ELEMENT_MAX 4096

/* A handle's operation, in the list of its comm. */
struct rd_made_op {
	struct rd_user_op op;
	struct rd_made_op *next;
};

/* The operation of that handle; NULL: there is none. */
const struct rd_user_op *rd_op_find(const struct rondo_comm *comm, rondo_op handle);

/* The number of a collective by its name; RONDO_INVALID: there is none. The reason names the
   function. */
int rd_collective_find(const char *name, const char *function, int *number);

/* RONDO_INVALID where the number is no type's. The reason names the function: name + variant. */
int rd_type_check(rondo_type type, const char *name, const char *variant);

/* RONDO_INVALID, or RONDO_UNSUPPORTED, where the operation cannot combine `size` bytes of this type
   in messages of piece_size bytes. */
int rd_op_check(const struct rd_user_op *op, rondo_type type, size_t size, size_t piece_size);

/* Frees the handles of a comm. */
void rd_ops_destroy(struct rondo_comm *comm);

#endif
