#include "exec/call.h"

#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "exec/reduce.h"

void rd_call_combine(
	const struct rd_call *call, void *into, const void *a, const void *b, size_t count)
{
	const struct rd_user_op *op = call->user_op;

	op->combine(into, a, b, count, call->type, op->argument);
}

int rd_call_copy(struct rd_call *copy, const struct rd_call *call)
{
	int ins = rd_in_blocks(&call->problem), outs = rd_out_blocks(&call->problem);

	*copy = *call;
	if (call->vcounts)
		copy->vcounts = rd_vcounts_copy(call->vcounts, ins, outs);
	if (call->user_op)
		copy->user_op = rd_user_op_copy(call->user_op);
	if (!copy->vcounts == !call->vcounts && !copy->user_op == !call->user_op)
		return 0;
	rd_call_finish(copy);
	return rd_fail(RONDO_MEMORY, "no memory for a copy of a call");
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

/* The call's output where that has room for the input; else memory of the operation. */
static void *room_for_input(const struct rd_call *call, size_t size)
{
	struct rd_user_op *op = call->user_op;

	if (!call->vcounts && rd_out_blocks(&call->problem) == rd_in_blocks(&call->problem))
		return call->out;
	/* The part before may have been shorter. */
	free(op->scaled);
	op->scaled = malloc(size);
	return op->scaled;
}

/* Bytes. */
#define BLOCK (8 << 10)

static void scale(const struct rd_call *call, char *into, const char *from, size_t size)
{
	_Alignas(64) char factors[BLOCK];
	rd_reduce_function multiply = rd_reduce(call->type, RONDO_PROD);
	size_t element = rondo_type_size(call->type);

	for (size_t at = 0; at < BLOCK && at < size; at += element)
		memcpy(factors + at, &call->user_op->factor, element);
	for (size_t at = 0; at < size; at += BLOCK) {
		size_t part = size - at < BLOCK ? size - at : BLOCK;

		multiply(into + at, from + at, factors, part / element);
	}
}

/* The scaled blocks follow each other, wherever they were. */
static void scale_blocks(struct rd_call *call, char *into)
{
	struct rd_vcounts *vcounts = call->vcounts;
	const char *in = call->in;
	size_t at = 0;

	for (int i = 0; i < rd_in_blocks(&call->problem); i++) {
		struct rd_extent *extent = &vcounts->in[i];

		scale(call, into + at, in + extent->offset, extent->size);
		extent->offset = at;
		at += extent->size;
	}
}

int rd_call_scale(struct rd_call *call)
{
	int blocks = rd_in_blocks(&call->problem);
	size_t size =
		call->vcounts ? rd_extents_total(call->vcounts->in, blocks) : rd_call_in_size(call);

	if (size == 0)
		return 0;

	char *into = room_for_input(call, size);

	if (!into)
		return rd_fail(RONDO_MEMORY, "no memory to multiply %zu bytes", size);
	if (call->vcounts)
		scale_blocks(call, into);
	else
		scale(call, into, call->in, size);
	call->in = into;
	return 0;
}
