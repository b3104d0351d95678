#include "api/op.h"

#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/nearest.h"
#include "comm/comm.h"

int rd_type_check(rondo_type type, const char *name, const char *variant)
{
	if ((unsigned)type < RONDO_TYPE_COUNT)
		return 0;
	return rd_fail(RONDO_INVALID,
		"%s%s: %d is no type: give one of enum rondo_type, 0 (%s) to %d (%s)", name,
		variant, (int)type, rondo_type_name(0), RONDO_TYPE_COUNT - 1,
		rondo_type_name(RONDO_TYPE_COUNT - 1));
}

const struct rd_user_op *rd_op_find(const struct rondo_comm *comm, rondo_op handle)
{
	for (const struct rd_made_op *made = comm->ops; made; made = made->next)
		if (RONDO_OP_OWN + made->op.serial == (unsigned)handle)
			return &made->op;
	return NULL;
}

static int add(rondo_comm *comm, rondo_op *handle, const struct rd_user_op *op)
{
	struct rd_made_op *made = malloc(sizeof(*made));

	if (!made)
		return rd_fail(RONDO_MEMORY, "no memory for an operation");
	made->op = *op;
	made->op.serial = comm->ops_made++ % (RONDO_OP_LAST - RONDO_OP_OWN);
	made->next = comm->ops;
	comm->ops = made;
	*handle = (rondo_op)(RONDO_OP_OWN + made->op.serial);
	return 0;
}

int rondo_op_create(
	rondo_comm *comm, rondo_op *op, rondo_combine combine, size_t element_size, void *argument)
{
	if (!comm || !op || !combine)
		return rd_fail(RONDO_INVALID, "rondo_op_create: %s is NULL",
			!comm ? "comm"
			: !op ? "op"
			      : "combine");
	if (rd_comm_check_process(comm, "rondo_op_create"))
		return RONDO_INVALID;
	if (element_size > RD_ELEMENT_MAX)
		return rd_fail(RONDO_INVALID,
			"rondo_op_create: an element of %zu bytes: at most %d are possible",
			element_size, RD_ELEMENT_MAX);
	return add(comm, op,
		&(struct rd_user_op){
			.combine = combine, .element_size = element_size, .argument = argument });
}

int rondo_op_create_premul(rondo_comm *comm, rondo_op *op, const void *factor, rondo_type type)
{
	struct rd_user_op made = { .type = type };

	if (!comm || !op || !factor)
		return rd_fail(RONDO_INVALID, "rondo_op_create_premul: %s is NULL",
			!comm ? "comm"
			: !op ? "op"
			      : "factor");
	if (rd_comm_check_process(comm, "rondo_op_create_premul") ||
		rd_type_check(type, "rondo_op_create_premul", ""))
		return RONDO_INVALID;
	if (type >= RONDO_BOOL)
		return rd_fail(RONDO_INVALID, "rondo_op_create_premul: a factor cannot be %s",
			rondo_type_name(type));
	memcpy(&made.factor, factor, rondo_type_size(type));
	return add(comm, op, &made);
}

int rondo_op_destroy(rondo_comm *comm, rondo_op op)
{
	struct rd_made_op **at;

	if (!comm)
		return rd_fail(RONDO_INVALID, "rondo_op_destroy: comm is NULL");
	if (rd_comm_check_process(comm, "rondo_op_destroy"))
		return RONDO_INVALID;
	for (at = &comm->ops; *at; at = &(*at)->next) {
		struct rd_made_op *made = *at;

		if (RONDO_OP_OWN + made->op.serial != (unsigned)op)
			continue;
		*at = made->next;
		free(made);
		return 0;
	}
	return rd_fail(RONDO_INVALID, "rondo_op_destroy: %d was not made on this comm", (int)op);
}

void rd_ops_destroy(struct rondo_comm *comm)
{
	while (comm->ops) {
		struct rd_made_op *next = comm->ops->next;

		free(comm->ops);
		comm->ops = next;
	}
}

int rd_op_check(const struct rd_user_op *op, rondo_type type, size_t size, size_t piece_size)
{
	if (!op->combine && op->type != type)
		return rd_fail(RONDO_INVALID, "the operation's factor is %s, the call's type %s",
			rondo_type_name(op->type), rondo_type_name(type));
	if (op->element_size == 0)
		return 0;
	if (type != RONDO_U8 || size % op->element_size != 0)
		return rd_fail(RONDO_INVALID,
			"the operation combines elements of %zu bytes: type must be u8, and count "
			"a multiple of that",
			op->element_size);
	/* Messages are cut at cache lines. */
	if (op->element_size > piece_size / 64 * 64)
		return rd_fail(RONDO_UNSUPPORTED,
			"the operation's elements of %zu bytes do not fit a message: set "
			"RONDO_PIECE to as much at least",
			op->element_size);
	return 0;
}

int rd_collective_find(const char *name, const char *function, int *number)
{
	struct rd_nearest nearest = RD_NEAREST(name);
	char meant[RD_NEAREST_TEXT];

	*number = rd_collective_named(name);
	if (*number >= 0 && *number != RD_TRANSFER)
		return 0;
	for (int i = 0; i < RD_COLLECTIVE_COUNT; i++)
		if (i != RD_TRANSFER)
			rd_nearest_try(&nearest, rd_collective_name(i));
	return rd_fail(RONDO_INVALID, "%s: %.40s is no collective%s", function, name,
		rd_nearest_text(&nearest, meant));
}
