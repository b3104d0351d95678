#include "checked_call.h"

#include <stdlib.h>
#include <string.h>

#include "call_collective.h"
#include "plan/collective.h"

/* The ranks whose input and output have blocks: one block, or one for each rank. */
enum share { ONE = 0, ALL = 1, AT_ROOT = 2 };

static const struct {
	int in, out; /* enum share */
} shares[] = {
	[RD_ALL_REDUCE] = { ONE, ONE },
	[RD_REDUCE] = { ONE, ONE | AT_ROOT },
	[RD_BROADCAST] = { ONE | AT_ROOT, ONE },
	[RD_REDUCE_SCATTER] = { ALL, ONE },
	[RD_ALL_GATHER] = { ONE, ALL },
	[RD_GATHER] = { ONE, ALL | AT_ROOT },
	[RD_SCATTER] = { ALL | AT_ROOT, ONE },
	[RD_ALL_TO_ALL] = { ALL, ALL },
};

_Static_assert(sizeof(shares) / sizeof(shares[0]) == CHECKED_COLLECTIVES, "all have shares");

static size_t blocks(const struct reference *r, int share)
{
	if (share & AT_ROOT && r->rank != r->root)
		return 0;
	return share & ALL ? (size_t)r->size : 1;
}

#define GUARD 64

/* Room for the larger of input and output, between guards that must not change. */
static char *guarded(char *memory, size_t bytes)
{
	memset(memory, 0x5a, bytes + 2 * GUARD + 8);
	return memory + GUARD;
}

static bool guards_stand(const char *memory, const char *buffer, size_t bytes)
{
	for (const char *at = memory; at < buffer; at++)
		if (*at != 0x5a)
			return false;
	for (const char *at = buffer + bytes; at < buffer + bytes + GUARD; at++)
		if (*at != 0x5a)
			return false;
	return true;
}

struct checked_memory checked_memory_get(const struct rank_env *env, size_t size)
{
	return (struct checked_memory){ world_get_memory(env, size + 8),
		world_get_memory(env, size + 2 * GUARD + 8) };
}

void checked_memory_put(const struct rank_env *env, struct checked_memory *memory)
{
	world_put_memory(env, memory->in);
	world_put_memory(env, memory->out);
}

static uint64_t hash_bytes(uint64_t hash, const char *bytes, size_t size)
{
	for (size_t i = 0; i < size; i += 8) {
		uint64_t word = 0;

		memcpy(&word, bytes + i, size - i < 8 ? size - i : 8);
		hash = reference_mix(hash ^ word) + i;
	}
	return hash;
}

int checked_call_wrong(
	struct rank_env *env, const struct reference *r, bool in_place, const char *what, size_t at)
{
	return world_report(env, "%s of %zu %s %s root %d%s: %s %zu",
		rd_collective_name(r->collective), r->count, rondo_type_name(r->type),
		rondo_op_name(r->op), r->root, in_place ? " in place" : "", what, at);
}

int checked_call(struct rank_env *env, rondo_comm *comm, const struct reference *r, bool in_place,
	rondo_stream *stream, struct checked_memory *memory)
{
	size_t block = r->count * rondo_type_size(r->type);
	size_t in_blocks = blocks(r, shares[r->collective].in), in_size = in_blocks * block;
	size_t out_blocks = blocks(r, shares[r->collective].out), out_size = out_blocks * block;
	size_t misaligned = (r->count + r->op + in_place) % 3 == 1 ? 1 : 0; /* bytes */
	size_t most = in_size > out_size ? in_size : out_size;
	char *out = guarded(memory->out, most) + misaligned, *in = memory->in + misaligned;
	char *result = out;

	if (in_place) {
		in = out + (in_size < out_size ? r->rank * block : 0);
		result = out + (in_size > out_size ? r->rank * block : 0);
		if (in_size == 0 || out_size == 0)
			in = result = out;
	}
	memcpy(in, r->inputs[r->rank], in_size);

	int err = call_collective(
		comm, r->collective, in, result, r->count, r->type, r->op, r->root, stream);

	if (!err && stream)
		err = rondo_stream_synchronize(stream);
	if (err)
		return err;
	for (size_t i = 0; i < out_blocks; i++) {
		size_t right = reference_right(r, result, i);

		if (right < r->count)
			return checked_call_wrong(
				env, r, in_place, "wrong element", i * r->count + right);
	}
	if (!guards_stand(memory->out, out, in_place ? most : out_size))
		return checked_call_wrong(
			env, r, in_place, "it wrote beside its buffer of", out_size);
	if (r->collective == RD_ALL_REDUCE || r->collective == RD_ALL_GATHER ||
		r->collective == RD_BROADCAST)
		*env->number = hash_bytes(*env->number, result, out_size);
	return 0;
}
