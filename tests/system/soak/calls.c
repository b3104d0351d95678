#include "calls.h"

#include <stdlib.h>
#include <string.h>

#include "checked_call.h"
#include "plan/collective.h"

/* Elements of a block, at most. */
#define MOST 65536u

struct caller {
	struct rank_env *env;
	rondo_comm *comm;
	struct reference reference;
	struct checked_memory memory;
	rondo_stream *stream;
};

static int caller_open(struct caller *caller, struct rank_env *env, rondo_comm *comm)
{
	int size = rondo_comm_size(comm);

	*caller = (struct caller){ .env = env, .comm = comm };
	reference_init(&caller->reference, rondo_comm_rank(comm), size, MOST);
	caller->memory = checked_memory_get(env, (size_t)MOST * 16 * (size_t)size);
	return rondo_stream_create(&caller->stream);
}

static void caller_close(struct caller *caller)
{
	rondo_stream_destroy(caller->stream);
	checked_memory_put(caller->env, &caller->memory);
	reference_finish(&caller->reference);
}

/* ---- Collectives --------------------------------------------------------------------------- */

/* Short blocks are as likely as long ones. */
static size_t draw_count(struct draw *from)
{
	unsigned bits = draw(from, 17);

	return draw_one_in(from, 16) ? 0 : draw(from, (1u << bits)) + 1;
}

static rondo_op draw_op(struct draw *from, rondo_type type)
{
	rondo_op op;

	do
		op = (rondo_op)draw(from, RONDO_OP_COUNT);
	while (!rondo_op_applies(op, type));
	return op;
}

static int make_collective(struct caller *caller, struct draw *from)
{
	struct reference *r = &caller->reference;
	bool in_place, on_stream;

	r->collective = (enum rd_collective)draw(from, CHECKED_COLLECTIVES);
	r->type = (rondo_type)draw(from, RONDO_TYPE_COUNT);
	r->op = draw_op(from, r->type);
	if (!rd_collective_reduces(r->collective))
		r->op = RONDO_SUM;
	r->count = draw_count(from);
	r->root = (int)draw(from, (unsigned)r->size);
	if (!rd_collective_has_root(r->collective))
		r->root = 0;
	in_place = draw(from, 2);
	on_stream = draw_one_in(from, 4);
	reference_fill(r);
	reference_combine(r);
	return checked_call(caller->env, caller->comm, r, in_place,
		on_stream ? caller->stream : NULL, &caller->memory);
}

/* ---- Transfers and texts -------------------------------------------------------------------- */

/* Each rank sends to the one `shift` above it, and receives from the one below. */
static int make_transfers(struct caller *caller, struct draw *from)
{
	int rank = caller->reference.rank, size = caller->reference.size;
	int shift = (int)draw(from, (unsigned)size);
	int to = (rank + shift) % size, source = (rank - shift + size) % size, err, last;
	int32_t *in = (int32_t *)caller->memory.in, *out = (int32_t *)caller->memory.out;
	size_t count = draw_count(from);

	for (size_t i = 0; i < count; i++)
		in[i] = (int32_t)(rank * 1000003 + (int)i);
	err = rondo_group_start();
	if (!err)
		err = rondo_send(caller->comm, in, count, RONDO_I32, to, NULL);
	if (!err)
		err = rondo_recv(caller->comm, out, count, RONDO_I32, source, NULL);
	last = rondo_group_end();
	if (err || last)
		return err ? err : last;
	for (size_t i = 0; i < count; i++)
		if (out[i] != (int32_t)(source * 1000003 + (int)i))
			return world_report(caller->env, "element %zu of %zu from rank %d is %d", i,
				count, source, out[i]);
	return 0;
}

static int make_texts(struct caller *caller, struct draw *from)
{
	size_t sizes[WORLD_MAX], most = draw_count(from), at = 0;
	int rank = caller->reference.rank, wrong = 0, err;
	void *all;

	memset(caller->memory.in, 'a' + rank, most);
	err = rondo_all_gather_bytes(caller->comm, caller->memory.in,
		most * (size_t)(rank + 1) / (size_t)caller->reference.size, &all, sizes);
	if (err)
		return err;
	for (int k = 0; k < caller->reference.size && !wrong; k++)
		for (size_t i = 0; i < sizes[k] && !wrong; i++)
			if (((char *)all)[at++] != 'a' + k)
				wrong = world_report(
					caller->env, "byte %zu of rank %d's text", i, k);
	free(all);
	return wrong;
}

/* ---- Comms of a part of the ranks ------------------------------------------------------------ */

static int use_part(struct rank_env *env, rondo_comm *part, struct draw *from)
{
	struct caller caller;
	int err = caller_open(&caller, env, part), last;

	for (int i = 0; i < 3 && !err; i++)
		err = make_collective(&caller, from);
	caller_close(&caller);
	/* Here descriptors are counted: rank 0's outlive a mere destroy. */
	if (!err && env->world->threads)
		err = rondo_comm_finalize(part);
	last = rondo_comm_destroy(part);
	return err ? err : last;
}

/* A death ends the comm that the part is of, too. There ranks have the numbers of the world. */
static int end_part(struct caller *caller, int err)
{
	return err == RONDO_DIED ? rondo_barrier(caller->comm, NULL) : err;
}

static int make_part(struct caller *caller, struct draw *from)
{
	int colors = 1 + (int)draw(from, 3), reversed = (int)draw(from, 2);
	int color = caller->reference.rank % colors;
	struct draw of_part = draw_from(from->state, (uint64_t)color);
	rondo_comm *part;
	int err = rondo_comm_split(
		caller->comm, color, reversed ? -caller->reference.rank : 0, &part);

	return end_part(caller, err ? err : use_part(caller->env, part, &of_part));
}

/* Some ranks, in any order; the others go on. */
static int make_group(struct caller *caller, struct draw *from)
{
	int ranks[WORLD_MAX] = { 0 }, count = 0, tag = (int)draw(from, 2), err;
	struct draw of_group;
	bool member = false;
	rondo_comm *group;

	for (int rank = 0; rank < caller->reference.size; rank++) {
		int at = (int)draw(from, (unsigned)count + 1);

		if (draw(from, 2))
			continue;
		member |= rank == caller->reference.rank;
		ranks[count] = ranks[at];
		ranks[at] = rank;
		count++;
	}
	of_group = draw_from(from->state, 0);
	if (!member)
		return 0;
	err = rondo_comm_create_group(caller->comm, ranks, count, tag, &group);
	return end_part(caller, err ? err : use_part(caller->env, group, &of_group));
}

/* ---- All of them ----------------------------------------------------------------------------- */

static int make_call(struct caller *caller, struct draw *from)
{
	switch (draw(from, 24)) {
	case 0:
		return make_part(caller, from);
	case 1:
		return make_group(caller, from);
	case 2:
	case 3:
		return make_texts(caller, from);
	case 4:
	case 5:
	case 6:
		return make_transfers(caller, from);
	case 7:
		return rondo_barrier(caller->comm, NULL);
	default:
		return make_collective(caller, from);
	}
}

int calls_make(
	struct rank_env *env, rondo_comm *comm, struct draw from, int count, _Atomic int *made)
{
	struct caller caller;
	int err = caller_open(&caller, env, comm);

	for (int i = 0; i < count && !err; i++) {
		atomic_fetch_add(made, 1);
		err = make_call(&caller, &from);
	}
	caller_close(&caller);
	return err;
}
