#include "comm/widen.h"

#include <stdlib.h>

#include "base/error.h"
#include "exec/reduce.h"

struct rd_widened {
	struct rd_call call; /* as it was made */
	struct rd_vcounts *vcounts; /* of the call on f32; NULL: none */
	float *out;
	float in[];
};

static size_t in_count(const struct rd_call *call)
{
	int blocks = rd_in_blocks(&call->problem);

	if (!call->vcounts)
		return (size_t)blocks * call->count;
	return rd_extents_total(call->vcounts->in, blocks) / rondo_type_size(call->type);
}

static size_t out_count(const struct rd_call *call)
{
	return rd_call_out_size(call) / rondo_type_size(call->type);
}

/* One after the other, wherever they were. */
static void scale_extents(
	struct rd_extent *into, const struct rd_extent *from, int blocks, size_t by)
{
	for (int i = 0; i < blocks; i++)
		into[i] = (struct rd_extent){
			i > 0 ? into[i - 1].offset + into[i - 1].size : 0,
			from[i].size * by,
		};
}

/* The call's vcounts in bytes of f32; NULL: no memory. */
static struct rd_vcounts *widen_vcounts(const struct rd_call *call)
{
	int ins = rd_in_blocks(&call->problem), outs = rd_out_blocks(&call->problem);
	size_t by = sizeof(float) / rondo_type_size(call->type);
	struct rd_vcounts *made = rd_vcounts_create(ins, outs);

	if (!made)
		return NULL;
	scale_extents(made->in, call->vcounts->in, ins, by);
	scale_extents(made->out, call->vcounts->out, outs, by);
	made->pairwise = call->vcounts->pairwise;
	made->digest = call->vcounts->digest;
	return made;
}

static void widen_in(
	struct rd_widened *widened, const struct rd_call *call, const struct rd_vcounts *vcounts)
{
	const char *in = call->in;

	if (!vcounts) {
		rd_widen(widened->in, in, in_count(call), call->type);
		return;
	}
	for (int i = 0; i < rd_in_blocks(&call->problem); i++)
		rd_widen(widened->in + vcounts->in[i].offset / sizeof(float),
			in + call->vcounts->in[i].offset, vcounts->in[i].size / sizeof(float),
			call->type);
}

int rd_widen_call(struct rd_widened **widened_out, struct rd_call *call)
{
	size_t ins = in_count(call), outs = out_count(call);
	struct rd_widened *widened = malloc(sizeof(*widened) + (ins + outs) * sizeof(float));
	struct rd_vcounts *vcounts = widened && call->vcounts ? widen_vcounts(call) : NULL;

	if (!widened || (call->vcounts && !vcounts)) {
		free(widened);
		return rd_fail(RONDO_MEMORY, "no memory to average %zu %s as f32", ins,
			rondo_type_name(call->type));
	}
	widened->call = *call;
	widened->vcounts = vcounts;
	widened->out = widened->in + ins;
	widen_in(widened, call, vcounts);
	call->in = widened->in;
	call->out = widened->out;
	call->type = RONDO_F32;
	call->vcounts = vcounts;
	*widened_out = widened;
	return 0;
}

/* A rank's output is one block, or none. */
void rd_widened_finish(const struct rd_widened *widened)
{
	const struct rd_call *call = &widened->call;

	rd_narrow(call->out, widened->out, out_count(call), call->type);
}

void rd_widened_destroy(struct rd_widened *widened, struct rd_call *call)
{
	if (!widened)
		return;
	*call = widened->call;
	rd_vcounts_destroy(widened->vcounts);
	free(widened);
}
