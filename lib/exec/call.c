#include "exec/call.h"

#include <stdlib.h>

struct rd_user_op *rd_user_op_copy(const struct rd_user_op *op)
{
	struct rd_user_op *copy = malloc(sizeof(*copy));

	if (copy)
		*copy = *op;
	return copy;
}

void rd_user_op_destroy(struct rd_user_op *op)
{
	if (!op)
		return;
	free(op->scaled);
	free(op);
}

void rd_user_op_combine(
	const struct rd_call *call, void *into, const void *a, const void *b, size_t count)
{
	const struct rd_user_op *op = call->user_op;

	op->combine(into, a, b, count, call->type, op->argument);
}

void rd_call_finish(struct rd_call *call)
{
	rd_vcounts_destroy(call->vcounts);
	rd_user_op_destroy(call->user_op);
	call->vcounts = NULL;
	call->user_op = NULL;
}

size_t rd_call_in_size(const struct rd_call *call)
{
	int blocks = rd_in_blocks(&call->problem);

	if (call->vcounts)
		return rd_extents_end(call->vcounts->in, blocks);
	return (size_t)blocks * call->count * rondo_type_size(call->type);
}

size_t rd_call_out_size(const struct rd_call *call)
{
	int blocks = rd_out_blocks(&call->problem);

	if (call->vcounts)
		return rd_extents_end(call->vcounts->out, blocks);
	return (size_t)blocks * call->count * rondo_type_size(call->type);
}
