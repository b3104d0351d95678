/*
 * A call: the arguments of one rank's call of a collective. An ordinary call has neither vcounts
 * nor a user operation, and pays for them with one test (rd_call_is_ordinary()).
 */
#ifndef RD_CALL_H
#define RD_CALL_H

#include "plan/collective.h"
#include "exec/user_op.h"
#include "exec/vcounts.h"
#include "rondo.h"

struct rd_call {
	struct rd_problem problem;
	rondo_type type;
	rondo_op op; /* of the executor: a sum, where the call has a user operation */
	/* elements in a block; approximate, where the call has vcounts */
	size_t count;
	const void *in;
	void *out;
	uint32_t number;
	/* Both outlive the exec. The holder of the call frees them, by rd_call_finish(). */
	struct rd_vcounts *vcounts; /* NULL: all blocks have `count` elements */
	struct rd_user_op *user_op; /* NULL: `op` alone */
	/* elements in a block of the full call of which this call is a part; 0: not a part */
	size_t full_count;
};

static inline bool rd_call_is_ordinary(const struct rd_call *call)
{
	return !call->vcounts && !call->user_op;
}

/* into = a op b by the call's user operation, which combines. */
void rd_call_combine(
	const struct rd_call *call, void *into, const void *a, const void *b, size_t count);

/* The copy has vcounts and a user operation of its own. Returns 0 or RONDO_MEMORY: it has none. */
int rd_call_copy(struct rd_call *copy, const struct rd_call *call);
/* Frees the call's vcounts and user operation. */
void rd_call_finish(struct rd_call *call);

/* Multiplies the call's input by the factor of its user operation. The result goes to the call's
   output where that has room, else to memory of the operation; it becomes the call's input. Returns
   0 or RONDO_MEMORY. */
int rd_call_scale(struct rd_call *call);

/* Bytes from the start of this rank's input, or output, to the end of its last block. For any
   call. */
size_t rd_call_in_size(const struct rd_call *call);
size_t rd_call_out_size(const struct rd_call *call);

#endif
