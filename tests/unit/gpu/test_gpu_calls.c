/* ctest label: threads */
/* Calls on device memory: every way of running them gives what the host's gives.
 */
#include <criterion/criterion.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "device/device_stream.h"
#include "text.h"
#include "api/stream.h"
#include "gpu/direct.h"
#include "gpu/stage_memory.h"
#include "gpus.h"
#include "variants.h"
#include "base/futex.h"

Test(gpu, all_collectives_are_right_by_every_way, .timeout = 240)
{
	for (size_t i = 0; i < VARIANTS; i++) {
		cr_expect_eq(try_body(&variants[i], 4, all_collectives, 0), 0, "%s %s %s %s",
			variants[i].gpus, variants[i].kernel,
			variants[i].threads ? "threads" : "processes",
			variants[i].transport ? variants[i].transport : "");
	}
}

Test(gpu, two_and_three_ranks_are_right_too, .timeout = 120)
{
	for (size_t i = 0; i < 5; i++)
		for (int size = 1; size <= 3; size++) {
			struct variant variant = variants[i];
			struct trial trial = { &variant, size, all_collectives, 0 };

			if (size == 1)
				variant.becomes = RD_KERNEL_STAGED;
			cr_expect_eq(
				in_child(run_trial, &trial), 0, "%d ranks, variant %zu", size, i);
		}
}

static int meet_once(struct rank_env *env)
{
	TRY(env->create_error);
	TRY(rondo_barrier(env->comm, NULL));
	return 0;
}

/* One log line has the way of a comm's calls on devices, and its reason. */
Test(gpu, the_way_that_is_taken_is_logged_with_its_reason, .timeout = 60)
{
	static const struct {
		struct variant variant;
		const char *words;
	} cases[] = {
		{ { "4", "auto", true, NULL, 0 }, "fused (all ranks in one process)" },
		{ { "4", "auto", false, NULL, 0 }, "fused (all ranks run at the same time)" },
		{ { "1", "auto", false, NULL, 0 }, "stepped (processes take turns on one device)" },
		{ { "1", "fused", false, NULL, 0 }, "fused (RONDO_KERNEL)" },
		{ { "2", "stepped", true, NULL, 0 }, "stepped (RONDO_KERNEL)" },
		{ { "2", "messages", true, NULL, 0 }, "messages (RONDO_KERNEL)" },
		{ { "2", "staged", true, NULL, 0 }, "staged (RONDO_KERNEL)" },
		{ { "2,no-handles", "auto", false, NULL, 0 },
			"staged (not all ranks reach each other's device memory)" },
	};

	setenv("RONDO_DEBUG", "INFO", 1);
	setenv("RONDO_DEBUG_SUBSYS", "ROUTE", 1);
	for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
		struct trial trial = { &cases[i].variant, 2, meet_once, 0 };
		const char *text;
		int failed;

		captured_stderr_begin();
		failed = in_child(run_trial, &trial);
		text = captured_stderr_end();
		cr_expect_eq(failed, 0);
		cr_expect_eq(count_of(text, cases[i].words), 2, "%s: %s", cases[i].words, text);
	}
}

/* ---- Streams ------------------------------------------------------------------------------- */

/* The stream is shut when the calls are made, which return at once; what is queued before comes
   before, and what is queued after comes after. */
static int in_the_streams_order(struct rank_env *env)
{
	enum { COUNT = 1000, BYTES = COUNT * sizeof(float) };
	float *ones, *back, *sums; /* in device memory: other copies would wait */
	uint32_t *gate;
	struct memory memory;
	int wrong = open_memory(env, &memory);

	if (!wrong)
		wrong = open_flag(env, &gate);
	if (wrong)
		return wrong;
	ones = memory.in + COUNT;
	sums = memory.out + COUNT;
	back = memory.out + 2 * COUNT;

	struct rd_device_stream *device_stream = rd_stream_device_stream(memory.stream);

	for (int i = 0; i < COUNT; i++)
		ones[i] = 1;
	if (rd_stream_wait(
		    device_stream->ops, device_stream->device, device_stream->stream, gate, 1) ||
		rondo_copy(memory.in, ones, BYTES, memory.stream) ||
		rondo_all_reduce(env->comm, memory.in, memory.out, COUNT, RONDO_F32, RONDO_SUM,
			memory.stream) ||
		rondo_copy(sums, memory.out, BYTES, memory.stream) ||
		rondo_all_reduce(env->comm, memory.out, memory.out, COUNT, RONDO_F32, RONDO_SUM,
			memory.stream) ||
		rondo_copy(back, memory.out, BYTES, memory.stream))
		return world_report(env, "%s", rondo_last_error());
	wrong = expect_floats(env, memory.out, COUNT, 0);
	rd_flag_write(gate, 1);
	TRY(rondo_stream_synchronize(memory.stream));
	if (!wrong)
		wrong = expect_floats(env, sums, COUNT, (float)env->size);
	if (!wrong)
		wrong = expect_floats(env, back, COUNT, (float)(env->size * env->size));
	close_flag(gate);
	close_memory(&memory);
	return wrong;
}

Test(gpu, calls_return_at_once_and_run_in_the_streams_order, .timeout = 120)
{
	try_variants(3, in_the_streams_order, 0, true);
}

/* Calls of one comm on two streams in turn, many of them under way. */
WITH_MEMORY(on_two_streams)
{
	enum { CALLS = 100, COUNT = 33 };
	rondo_stream *other;
	int wrong = 0;

	if (rondo_stream_create_on(&other, env->rank % rondo_device_count()))
		return world_report(env, "%s", rondo_last_error());
	for (int i = 0; i < CALLS * COUNT; i++)
		memory->in[i] = (float)(i % 7 + env->rank);
	for (int i = 0; i < CALLS && !wrong; i++) {
		size_t at = (size_t)i * COUNT;

		if (rondo_all_reduce(env->comm, memory->in + at, memory->out + at, COUNT, RONDO_F32,
			    RONDO_SUM, i % 3 ? memory->stream : other))
			wrong = world_report(env, "%s", rondo_last_error());
	}
	if (rondo_stream_synchronize(memory->stream) || rondo_stream_synchronize(other))
		wrong = world_report(env, "%s", rondo_last_error());
	for (int i = 0; i < CALLS * COUNT && !wrong; i++)
		if (memory->out[i] != (float)(4 * (i % 7) + 6))
			wrong = world_report(env, "element %d is %g", i, memory->out[i]);
	rondo_stream_destroy(other);
	return wrong;
}

Test(gpu, calls_on_several_streams_are_right, .timeout = 120)
{
	cr_assert_leq(100 * 33, COUNT_MAX * 2);
	try_variants(4, on_two_streams, 0, true);
}

/* Buffers come and go, mostly at the same address: what a peer has mapped of them must follow. */
static int with_buffers_that_change(struct rank_env *env)
{
	struct memory memory;
	int wrong = open_memory(env, &memory), device = env->rank % rondo_device_count();

	for (int i = 0; i < 100 && !wrong; i++) {
		float *buffer;

		TRY(rondo_mem_alloc_on((void **)&buffer, 4096, device));
		for (int k = 0; k < 1000; k++)
			buffer[k] = (float)(i + env->rank);
		if (rondo_all_reduce(env->comm, buffer, buffer, 1000, RONDO_F32, RONDO_MAX, NULL))
			wrong = world_report(env, "%s", rondo_last_error());
		if (!wrong)
			wrong = expect_floats(env, buffer, 1000, (float)(i + env->size - 1));
		rondo_mem_free(buffer);
	}
	close_memory(&memory);
	return wrong;
}

Test(gpu, buffers_may_come_and_go, .timeout = 120)
{
	try_variants(3, with_buffers_that_change, 0, true);
}

WITH_MEMORY(exchange_in_a_ring)
{
	int next = (env->rank + 1) % env->size;
	int before = (env->rank + env->size - 1) % env->size, err;
	int wrong = 0;

	fill_floats(memory->in, env->rank, 1000);
	rondo_group_start();
	rondo_send(env->comm, memory->in, 1000, RONDO_F32, next, memory->stream);
	rondo_recv(env->comm, memory->out, 1000, RONDO_F32, before, memory->stream);
	rondo_all_reduce(env->comm, memory->in + 1000, memory->in + 1000, 1000, RONDO_F32,
		RONDO_SUM, memory->stream);
	err = rondo_group_end();
	if (!err)
		err = rondo_stream_synchronize(memory->stream);
	if (err)
		wrong = world_report(env, "%s", rondo_last_error());
	for (size_t i = 0; i < 1000 && !wrong; i++)
		if (memory->out[i] != value(before, i))
			wrong = world_report(env, "element %zu is %g", i, memory->out[i]);
	return wrong;
}

Test(gpu, groups_send_and_receive_device_memory, .timeout = 120)
{
	try_variants(3, exchange_in_a_ring, 0, true);
}

/* ---- Operations ---------------------------------------------------------------------------- */

static int one_own_call(struct rank_env *env, struct memory *memory, rondo_op op, size_t count,
	const float factors[3])
{
	fill_floats(memory->in, env->rank, count);
	if (rondo_all_reduce(
		    env->comm, memory->in, memory->out, count, RONDO_F32, op, memory->stream) ||
		rondo_stream_synchronize(memory->stream))
		return world_report(env, "%s", rondo_last_error());
	for (size_t i = 0; i < count; i++) {
		float wanted = factors[0] * value(0, i) + factors[1] * value(1, i) +
			       factors[2] * value(2, i);

		if (memory->out[i] != wanted)
			return world_report(env, "element %zu of %zu is %g, not %g", i, count,
				memory->out[i], wanted);
	}
	return 0;
}

/* The user's own function runs on the host; a factor on the device. */
WITH_MEMORY(own_operations)
{
	static const float weights[3] = { 2, 3, 5 }, signs[3] = { 1, -1, -1 };
	rondo_op weighed, own;
	int wrong = 0;

	if (rondo_op_create_premul(env->comm, &weighed, &weights[env->rank], RONDO_F32) ||
		rondo_op_create(env->comm, &own, subtract, 0, NULL))
		return world_report(env, "%s", rondo_last_error());
	for (int big = 0; big < 2 && !wrong; big++) {
		size_t count = big ? 2 * COUNT_MAX : 5;

		wrong = one_own_call(env, memory, weighed, count, weights);
		if (!wrong)
			wrong = one_own_call(env, memory, own, count, signs);
	}
	return wrong;
}

Test(gpu, factors_and_functions_of_the_programs_own_are_applied, .timeout = 120)
{
	try_variants(3, own_operations, 0, true);
}

/* Where all ranks reach all, only calls with the program's own functions go through host memory. */
static int only_functions_are_staged(struct rank_env *env)
{
	const struct variant *variant = env->argument;
	const struct rd_plan *plan;
	bool direct;
	struct rd_user_op function = { .combine = subtract };

	if (env->create_error)
		return world_report(env, "create: %s", rondo_last_error());
	for (int collective = 0; collective < RD_TRANSFER; collective++) {
		struct rd_call call = { .problem = problem_of(env, collective, 0),
			.type = RONDO_I32,
			.op = RONDO_LXOR,
			.count = 100 };

		TRY(rd_direct_plan(env->comm->gpu, &call, &plan, &direct));
		if (direct != (variant->becomes == RD_KERNEL_FUSED ||
				      variant->becomes == RD_KERNEL_STEPPED))
			return world_report(env, "%s", rd_collective_name(collective));
		call.user_op = &function;
		TRY(rd_direct_plan(env->comm->gpu, &call, &plan, &direct));
		if (direct)
			return world_report(
				env, "%s by a function", rd_collective_name(collective));
	}
	/* No rank leaves while another is still being created. */
	return expect_error(env, rondo_barrier(env->comm, NULL), 0);
}

Test(gpu, only_functions_of_the_programs_own_go_through_host_memory, .timeout = 120)
{
	try_variants(2, only_functions_are_staged, 0, true);
}

/* Whether the host makes this a small call: of the most elements that may be, or of one too
   many. */
static bool is_small(
	struct rank_env *env, int collective, bool too_many, struct rd_vcounts *vcounts)
{
	struct rd_problem problem = problem_of(env, collective, 0);
	struct rd_call call = { .problem = problem,
		.type = RONDO_F64,
		.count = (RD_LL_BUFFER_SIZE / 8 - 1) / (size_t)rd_blocks(&problem) + too_many,
		.vcounts = vcounts };

	return rd_direct_is_small(&call);
}

static int few_bytes_are_small(struct rank_env *env)
{
	struct rd_vcounts *vcounts = rd_vcounts_create(env->size, env->size);

	if (env->create_error)
		return world_report(env, "create: %s", rondo_last_error());
	for (int collective = 0; collective < RD_TRANSFER; collective++)
		if (!is_small(env, collective, false, NULL) ||
			is_small(env, collective, true, NULL))
			return world_report(env, "%s", rd_collective_name(collective));
	/* Where blocks differ in length, a rank has the length of its own alone. */
	if (is_small(env, RD_ALL_GATHER, false, vcounts))
		return world_report(env, "all_gather_v");
	rd_vcounts_destroy(vcounts);
	return expect_error(env, rondo_barrier(env->comm, NULL), 0);
}

Test(gpu, calls_of_few_bytes_are_small_whatever_the_collective, .timeout = 60)
{
	cr_expect_eq(try_body(&variants[1], 4, few_bytes_are_small, 0), 0);
}

static float sum_of_firsts(int size)
{
	float sum = 0;

	for (int rank = 0; rank < size; rank++)
		sum += value(rank, 0);
	return sum;
}

/* Whether a call of this many elements announces buffers, for peers to map. */
static int maps(struct rank_env *env, struct memory *memory, size_t count, bool wanted)
{
	uint32_t before = env->comm->gpu->announced;

	TRY(one_call(env, memory, count));
	if ((env->comm->gpu->announced != before) != wanted)
		return world_report(
			env, "a call of %zu announces %s", count, wanted ? "nothing" : "buffers");
	return expect_floats(env, memory->out, 1, sum_of_firsts(env->size));
}

static int small_calls_map_nothing(struct rank_env *env)
{
	struct memory memory;
	int wrong = open_room(env, &memory, 10000);

	if (wrong)
		return wrong;
	fill_floats(memory.in, env->rank, 1);
	wrong = maps(env, &memory, 1000, false);
	if (!wrong)
		wrong = maps(env, &memory, 10000, true);
	close_memory(&memory);
	return wrong;
}

Test(gpu, small_calls_leave_the_buffers_of_other_processes_alone, .timeout = 60)
{
	cr_expect_eq(try_body(&variants[3], 4, small_calls_map_nothing, 0), 0);
}

/* ---- New buffers --------------------------------------------------------------------------- */

/* In round 0 all ranks' buffers are new; later those of one rank, whose device then does the part
   of all, since the others may be unable to map. */
static int call_with_new_buffers(struct rank_env *env)
{
	const struct rd_gpu *gpu = env->comm->gpu;
	struct memory memory, fresh, *used;
	int wrong = open_room(env, &memory, 10000);

	for (int round = 0; round < 7 && !wrong; round++) {
		bool is_new = round > 0 && (round - 1) % env->size == env->rank;
		uint32_t wanted = round == 0 ? RD_PART_OWN : is_new ? RD_PART_ALL : RD_PART_NONE;

		used = is_new ? &fresh : &memory;
		if (is_new)
			wrong = open_room(env, &fresh, 10000);
		if (wrong)
			break;
		fill_floats(used->in, env->rank, 10000);
		TRY(one_call(env, used, 10000));
		for (size_t i = 0; i < 10000 && !wrong; i++)
			if (used->out[i] != value(0, i) + value(1, i) + value(2, i))
				wrong = world_report(env, "element %zu is %g", i, used->out[i]);
		if (!wrong && gpu->own_flags->addresses[gpu->number % RD_RUN_AHEAD].part != wanted)
			wrong = world_report(env, "round %d: another part than %u", round, wanted);
		if (is_new)
			close_memory(&fresh);
	}
	close_memory(&memory);
	return wrong;
}

Test(gpu, a_rank_with_new_buffers_does_the_part_of_all, .timeout = 60)
{
	for (int i = 0; i < 2; i++) {
		static const struct variant ways[] = {
			{ "1", "stepped", false, NULL, RD_KERNEL_STEPPED },
			{ "3", "fused", false, NULL, RD_KERNEL_FUSED },
		};
		cr_expect_eq(try_body(&ways[i], 3, call_with_new_buffers, 0), 0, "%d", i);
	}
}

static int mapped_of_peers(const struct rd_gpu *gpu)
{
	int mapped = 0;

	for (int peer = 0; peer < gpu->comm->size; peer++)
		for (int i = 0; i < RD_EXPORTS; i++)
			mapped += gpu->imports[peer][i].generation != 0;
	return mapped;
}

/* Buffers are freed once the next ones are there, which so lie elsewhere. */
static int free_after_each_call(struct rank_env *env)
{
	struct memory memories[2], *memory = NULL;
	int wrong = 0;

	for (int round = 0; round < 5 && !wrong; round++) {
		struct memory *earlier = memory;

		memory = &memories[round % 2];
		wrong = open_room(env, memory, 10000);
		if (earlier)
			close_memory(earlier);
		if (wrong)
			return wrong;
		fill_floats(memory->in, env->rank, 10000);
		TRY(one_call(env, memory, 10000));
		wrong = expect_floats(env, memory->out, 1, sum_of_firsts(env->size));
		if (mapped_of_peers(env->comm->gpu) != 2 * (env->size - 1))
			wrong = world_report(env, "round %d: %d buffers of peers are mapped", round,
				mapped_of_peers(env->comm->gpu));
	}
	close_memory(memory);
	return wrong;
}

Test(gpu, buffers_that_are_freed_are_not_kept_by_peers, .timeout = 60)
{
	static const struct variant ways[] = {
		{ "1", "stepped", false, NULL, RD_KERNEL_STEPPED },
		{ "3", "fused", false, NULL, RD_KERNEL_FUSED },
	};

	for (int i = 0; i < 2; i++) {
		cr_expect_eq(try_body(&ways[i], 3, free_after_each_call, 0), 0, "%d", i);
	}
}

/* ---- Old buffers --------------------------------------------------------------------------- */

/* So many calls ago that their numbers are ahead of the present ones. */
#define LONG_AGO (UINT32_C(1) << 31)

static void make_old(struct rd_gpu *gpu)
{
	for (int i = 0; i < RD_EXPORTS; i++)
		gpu->exports[i].used = gpu->number - LONG_AGO;
	for (struct rd_stage_block *block = gpu->stage ? gpu->stage->blocks : NULL; block;
		block = block->next)
		block->number = gpu->number - LONG_AGO;
}

/* Each call has an allocation of its own. Nothing has to be waited for. */
static int after_many_calls(struct rank_env *env)
{
	int device = env->rank % rondo_device_count(), wrong = env->create_error;
	float *buffers[RD_EXPORTS];

	for (int i = 0; i < RD_EXPORTS && !wrong; i++) {
		TRY(rondo_mem_alloc_on((void **)&buffers[i], 40000, device));
		fill_floats(buffers[i], env->rank, 10000);
		TRY(rondo_all_reduce(
			env->comm, buffers[i], buffers[i], 10000, RONDO_F32, RONDO_SUM, NULL));
		wrong = expect_floats(env, buffers[i], 1, sum_of_firsts(env->size));
		make_old(env->comm->gpu);
	}
	for (int i = 0; i < RD_EXPORTS && !wrong; i++)
		rondo_mem_free(buffers[i]);
	return wrong;
}

Test(gpu, memory_that_was_used_long_ago_is_not_waited_for, .timeout = 240)
{
	try_variants(2, after_many_calls, NEVER_MS, false);
}

/* ---- Mixed-up use -------------------------------------------------------------------------- */

static int refused(
	struct rank_env *env, const void *in, void *out, rondo_stream *stream, const char *words)
{
	int err = rondo_all_reduce(env->comm, in, out, 1000, RONDO_F32, RONDO_SUM, stream);

	if (err == RONDO_INVALID && strstr(rondo_last_error(), words))
		return 0;
	return world_report(env, "not \"%s\": %s %s", words, rondo_error_name(err),
		err ? rondo_last_error() : "");
}

WITH_MEMORY(mixed_up)
{
	static float host[1000];
	float *elsewhere, *freed;
	rondo_stream *host_stream, *other_stream;
	int other = (env->rank + 1) % 2, wrong = 0;

	rondo_mem_alloc_on((void **)&elsewhere, 8192, other);
	rondo_mem_alloc_on((void **)&freed, 4096, env->rank % 2);
	rondo_mem_free(freed);
	rondo_stream_create(&host_stream);
	rondo_stream_create_on(&other_stream, other);
	wrong |= refused(env, host, memory->out, memory->stream, "send is no device memory");
	wrong |= refused(env, memory->in, host, memory->stream, "recv is no device memory");
	wrong |= refused(env, freed, memory->out, memory->stream, "or was freed");
	wrong |= refused(env, memory->in, memory->out, host_stream, "the stream is a host stream");
	wrong |= refused(env, memory->in, host, NULL, "the other buffer is not");
	wrong |= refused(env, host, memory->out, NULL, "the other buffer is not");
	wrong |= refused(env, elsewhere, memory->out, memory->stream, "send lies on device");
	wrong |= refused(env, memory->in, memory->out, other_stream, "the stream is of device");
	wrong |= refused(env, elsewhere + 100, memory->out, NULL, "send lies on device");
	wrong |= expect_error(env,
		rondo_all_reduce(
			env->comm, memory->in, memory->out, 1000, 77, RONDO_SUM, memory->stream),
		RONDO_INVALID);
	if (!strstr(rondo_last_error(), "77 is no type: give one of enum rondo_type, 0 (i8) to "))
		wrong |= world_report(env, "%s", rondo_last_error());
	wrong |= refused(env, memory->in + (size_t)env->size * (COUNT_MAX + 1) - 10, memory->out,
		memory->stream, "its memory ends after");
	/* None of these harmed the comm, on which host memory is as good as ever. */
	if (!wrong)
		wrong = expect_error(env, one_call(env, memory, 1000), 0);
	if (!wrong)
		wrong = expect_error(env,
			rondo_all_reduce(env->comm, host, host, 1000, RONDO_F32, RONDO_SUM, NULL),
			0);
	rondo_stream_destroy(host_stream);
	rondo_stream_destroy(other_stream);
	rondo_mem_free(elsewhere);
	return wrong;
}

Test(gpu, mixed_up_buffers_and_streams_are_refused_with_the_reason, .timeout = 60)
{
	struct variant variant = variants[3];
	struct trial trial = { &variant, 2, mixed_up, 0 };

	variant.gpus = "2";
	cr_expect_eq(in_child(run_trial, &trial), 0);
}
