/* ctest label: threads */
/* Calls on device memory whose blocks differ in length, by every way. */
#include <criterion/criterion.h>

#include "variants.h"

#define RANKS 4

/* A buffer of blocks: the last first, with gaps between them. */
struct layout {
	size_t counts[RANKS], displs[RANKS], total;
};

/* Some have nothing for each other, some as much, and some less one way than the other. */
static size_t length(int from, int to)
{
	if ((from * 3 + to) % 4 == 0)
		return 0;
	return (size_t)(from + to) % 3 ? (size_t)((from + to) * 97)
				       : (size_t)(from * 131 + to * 17 + 1);
}

static void lay_out(struct layout *layout, bool gaps)
{
	layout->total = 0;
	for (int i = 0; i < RANKS; i++) {
		int k = gaps ? RANKS - 1 - i : i;

		layout->displs[k] = layout->total + (gaps ? 3 : 0);
		layout->total = layout->displs[k] + layout->counts[k];
	}
}

/* Rank `from` has value(10 * from + to) for rank `to`. */
static int check_blocks(struct rank_env *env, const struct memory *memory, const char *name,
	const struct layout *layout, int rank_or_all)
{
	const float *out = memory->out;

	for (size_t at = 0; at < layout->total; at++) {
		float wanted = -1.0f;

		for (int k = 0; k < RANKS; k++)
			if (at >= layout->displs[k] && at - layout->displs[k] < layout->counts[k])
				wanted = value(10 * k + rank_or_all, at - layout->displs[k]);
		if (out[at] != wanted)
			return world_report(
				env, "%s: element %zu is %g, not %g", name, at, out[at], wanted);
	}
	return 0;
}

static void refill(struct memory *memory)
{
	for (size_t i = 0; i < RANKS * COUNT_MAX; i++)
		memory->out[i] = -1.0f;
}

static int done(struct rank_env *env, struct memory *memory, int err)
{
	if (!err)
		err = rondo_stream_synchronize(memory->stream);
	return err ? world_report(env, "%s", rondo_last_error()) : 0;
}

static int try_all_to_all_v(struct rank_env *env, struct memory *memory, bool gaps)
{
	struct layout in, out;
	int rank = env->rank, wrong;

	for (int k = 0; k < RANKS; k++) {
		in.counts[k] = length(rank, k);
		out.counts[k] = length(k, rank);
	}
	lay_out(&in, gaps);
	lay_out(&out, gaps);
	for (int k = 0; k < RANKS; k++)
		fill_floats(memory->in + in.displs[k], 10 * rank + k, in.counts[k]);
	refill(memory);
	wrong = done(env, memory,
		rondo_all_to_all_v(env->comm, memory->in, in.counts, in.displs, memory->out,
			out.counts, out.displs, RONDO_F32, memory->stream));
	return wrong ? wrong : check_blocks(env, memory, "all_to_all_v", &out, rank);
}

/* In place, where all pairs have as much for each other. */
static int try_in_place(struct rank_env *env, struct memory *memory)
{
	struct layout both;
	int rank = env->rank, wrong;

	for (int k = 0; k < RANKS; k++)
		both.counts[k] = (size_t)(rank + k) * 301;
	lay_out(&both, true);
	refill(memory);
	for (int k = 0; k < RANKS; k++)
		fill_floats(memory->out + both.displs[k], 10 * rank + k, both.counts[k]);
	wrong = done(env, memory,
		rondo_all_to_all_v(env->comm, memory->out, both.counts, both.displs, memory->out,
			both.counts, both.displs, RONDO_F32, memory->stream));
	return wrong ? wrong : check_blocks(env, memory, "in place", &both, rank);
}

static int try_gathers(struct rank_env *env, struct memory *memory, bool gaps)
{
	struct layout out;
	int rank = env->rank, wrong;

	for (int k = 0; k < RANKS; k++)
		out.counts[k] = length(k, 1);
	lay_out(&out, gaps);
	fill_floats(memory->in, 10 * rank, out.counts[rank]);
	refill(memory);
	wrong = done(env, memory,
		rondo_all_gather_v(env->comm, memory->in, memory->out, out.counts, out.displs,
			RONDO_F32, memory->stream));
	if (!wrong)
		wrong = check_blocks(env, memory, "all_gather_v", &out, 0);
	refill(memory);
	if (!wrong)
		wrong = done(env, memory,
			rondo_gather_v(env->comm, memory->in, out.counts[rank], memory->out,
				out.counts, out.displs, RONDO_F32, 2, memory->stream));
	if (!wrong && rank == 2)
		wrong = check_blocks(env, memory, "gather_v", &out, 0);
	return wrong;
}

static int try_scatters(struct rank_env *env, struct memory *memory, bool gaps)
{
	struct layout in;
	int rank = env->rank, wrong;

	for (int k = 0; k < RANKS; k++)
		in.counts[k] = length(1, k);
	lay_out(&in, gaps);
	for (int k = 0; k < RANKS; k++)
		fill_floats(memory->in + in.displs[k], 10 + k, in.counts[k]);
	refill(memory);
	wrong = done(env, memory,
		rondo_scatter_v(env->comm, memory->in, in.counts, in.displs, memory->out,
			in.counts[rank], RONDO_F32, 1, memory->stream));
	for (size_t i = 0; i < in.counts[rank] && !wrong; i++)
		if (memory->out[i] != value(10 + rank, i))
			wrong = world_report(env, "scatter_v: %zu is %g", i, memory->out[i]);
	if (wrong || gaps)
		return wrong;
	wrong = done(env, memory,
		rondo_reduce_scatter_v(env->comm, memory->in, memory->out, in.counts, RONDO_F32,
			RONDO_SUM, memory->stream));
	for (size_t i = 0; i < in.counts[rank] && !wrong; i++)
		if (memory->out[i] != RANKS * value(10 + rank, i))
			wrong = world_report(env, "reduce_scatter_v: %zu is %g", i, memory->out[i]);
	return wrong;
}

static int varied_blocks(struct rank_env *env)
{
	struct memory memory;
	int wrong = open_memory(env, &memory);

	for (int gaps = 0; gaps < 2 && !wrong; gaps++) {
		wrong = try_all_to_all_v(env, &memory, gaps);
		if (!wrong)
			wrong = try_gathers(env, &memory, gaps);
		if (!wrong)
			wrong = try_scatters(env, &memory, gaps);
	}
	if (!wrong)
		wrong = try_in_place(env, &memory);
	close_memory(&memory);
	return wrong;
}

Test(gpu_variable, blocks_of_different_lengths_are_right_by_every_way, .timeout = 120)
{
	try_variants(RANKS, varied_blocks, 0, true);
}

/* Rank 1 believes that rank 0 has more for it than it has. */
static int want_too_much(struct rank_env *env, struct memory *memory)
{
	size_t sends[2] = { 8, 8 }, recvs[2] = { env->rank == 1 ? 9 : 8, 8 };
	int err = rondo_all_to_all_v(env->comm, memory->in, sends, NULL, memory->out, recvs, NULL,
		RONDO_F32, memory->stream);

	if (!err)
		err = rondo_stream_synchronize(memory->stream);
	/* Through host memory, rank 0's part is done before it is seen. */
	return err ? err : rondo_barrier(env->comm, NULL);
}

static int lengths_that_differ(struct rank_env *env)
{
	return expect_mismatch(env, COUNT_MAX, want_too_much);
}

Test(gpu_variable, lengths_that_two_ranks_disagree_about_are_a_mismatch, .timeout = 120)
{
	try_variants(2, lengths_that_differ, 0, true);
}

/* A list has host memory, which the comm of devices sends as any other. */
static int refuse_lists(struct rank_env *env)
{
	struct memory memory;
	int wrong = open_memory(env, &memory), in = env->rank, out[2] = { -1, -1 };
	size_t counts[2] = { 1, 1 };
	void *recv[2] = { &out[1], &out[0] };

	if (wrong)
		return wrong;
	EXPECT_ERROR(rondo_all_gather_list(env->comm, &in, recv, counts, RONDO_I32, memory.stream),
		RONDO_UNSUPPORTED, "all_gather_list: the stream is a device's");
	EXPECT_ERROR(rondo_all_gather_list(env->comm, memory.in, recv, counts, RONDO_I32, NULL),
		RONDO_UNSUPPORTED, "all_gather_list: block 0 of send is device memory");
	recv[1] = memory.out;
	EXPECT_ERROR(rondo_all_gather_list(env->comm, &in, recv, counts, RONDO_I32, NULL),
		RONDO_UNSUPPORTED, "all_gather_list: block 1 of recv is device memory");
	recv[1] = &out[0];
	TRY(rondo_all_gather_list(env->comm, &in, recv, counts, RONDO_I32, NULL));
	close_memory(&memory);
	return out[0] == 1 && out[1] == 0 ? 0 : world_report(env, "the blocks are wrong");
}

Test(gpu_variable, lists_of_device_memory_are_refused, .timeout = 120)
{
	try_variants(2, refuse_lists, 0, true);
}
