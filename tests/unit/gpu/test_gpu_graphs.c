/* ctest label: threads */
/* Calls on device memory that are captured in graphs, and what cannot be. */
#include <criterion/criterion.h>
#include <string.h>

#include "api/graph.h"
#include "call_collective.h"
#include "variants.h"

/* The captured calls: the sum of all inputs, and then the beginning of everybody's. */
static int capture_calls(struct rank_env *env, struct memory *memory, struct rd_graph **graph)
{
	int err = rd_graph_begin(memory->stream), ended;

	if (!err)
		err = rondo_all_reduce(env->comm, memory->in, memory->out, COUNT_MAX, RONDO_F32,
			RONDO_SUM, memory->stream);
	if (!err)
		err = rondo_all_gather(env->comm, memory->out, memory->out + COUNT_MAX, 100,
			RONDO_F32, memory->stream);
	ended = rd_graph_end(memory->stream, graph);
	return err ? err : ended;
}

static int check_replay(struct rank_env *env, const struct memory *memory, float added)
{
	for (size_t i = 0; i < COUNT_MAX; i++) {
		float sum = value(0, i) + value(1, i) + value(2, i) + 3 * added;

		if (memory->out[i] != sum ||
			(i < 300 && memory->out[COUNT_MAX + i] != memory->out[i % 100]))
			return world_report(
				env, "element %zu is %g, not %g", i, memory->out[i], sum);
	}
	return 0;
}

/* Other calls come in between, with so many buffers that peers forget what they had mapped first.
 */
static int make_other_calls(struct rank_env *env, struct memory *memory)
{
	float *others[40];
	int device = env->rank % rondo_device_count(), err = 0;

	for (int i = 0; i < 40 && !err; i++) {
		err = rondo_mem_alloc_on((void **)&others[i], 4096, device);
		if (!err)
			err = rondo_all_reduce(env->comm, others[i], others[i], 1000, RONDO_F32,
				RONDO_SUM, memory->stream);
	}
	if (!err)
		err = rondo_stream_synchronize(memory->stream);
	for (int i = 0; i < 40 && !err; i++)
		err = rondo_mem_free(others[i]);
	return err;
}

WITH_MEMORY(capture_and_replay)
{
	struct rd_graph *graph = NULL;
	int wrong = 0;

	if (capture_calls(env, memory, &graph))
		wrong = world_report(env, "%s", rondo_last_error());
	/* Nothing has run yet. */
	if (!wrong)
		wrong = expect_floats(env, memory->out, COUNT_MAX, 0);
	for (int replay = 0; replay < 60 && !wrong; replay++) {
		for (size_t i = 0; i < COUNT_MAX; i++)
			memory->in[i] = value(env->rank, i) + (float)replay;
		if (rd_graph_launch(graph) || rondo_stream_synchronize(memory->stream) ||
			(replay % 20 == 5 && make_other_calls(env, memory)))
			wrong = world_report(env, "%s", rondo_last_error());
		if (!wrong)
			wrong = check_replay(env, memory, (float)replay);
	}
	rd_graph_destroy(graph);
	return wrong;
}

static const struct variant fused_variants[] = {
	{ "4", "auto", true, NULL, RD_KERNEL_FUSED },
	{ "4", "auto", false, NULL, RD_KERNEL_FUSED },
	/* As under MPS, where processes on one device run at the same time. */
	{ "1", "fused", false, NULL, RD_KERNEL_FUSED },
};

Test(gpu_graphs, fused_calls_are_captured_and_replayed_any_number_of_times, .timeout = 120)
{
	for (int i = 0; i < 3; i++) {
		cr_expect_eq(try_body(&fused_variants[i], 3, capture_and_replay, 0), 0, "%s, %s",
			fused_variants[i].threads ? "threads" : "processes",
			fused_variants[i].gpus);
	}
}

/* Plans are on the device from the start, so a first call can be captured. */
Test(gpu_graphs, calls_by_messages_are_captured_and_replayed_too, .timeout = 120)
{
	for (int threads = ONLY_THREADS; threads < 2; threads++) {
		struct variant variant = { "4", "messages", threads, NULL, RD_KERNEL_MESSAGES };
		cr_expect_eq(try_body(&variant, 3, capture_and_replay, 0), 0, "%s",
			threads ? "threads" : "processes");
	}
}

/* From each rank to the next, and to itself; then the sum of what came. */
static int call_around(struct rank_env *env, struct memory *memory)
{
	int rank = env->rank, size = env->size;
	float *in = memory->in, *out = memory->out;
	rondo_comm *comm = env->comm;

	rondo_group_start();
	rondo_recv(comm, out, COUNT_MAX, RONDO_F32, (rank + size - 1) % size, memory->stream);
	rondo_send(comm, in, COUNT_MAX, RONDO_F32, (rank + 1) % size, memory->stream);
	rondo_send(comm, in, 100, RONDO_F32, rank, memory->stream);
	rondo_recv(comm, out + COUNT_MAX, 100, RONDO_F32, rank, memory->stream);
	int err = rondo_group_end();

	return err ? err
		   : rondo_all_reduce(
			     comm, out, in + COUNT_MAX, 100, RONDO_F32, RONDO_SUM, memory->stream);
}

static int check_around(struct rank_env *env, const struct memory *memory, float added)
{
	int previous = (env->rank + env->size - 1) % env->size;

	for (size_t i = 0; i < COUNT_MAX; i++) {
		float sum = value(0, i) + value(1, i) + value(2, i) + 3 * added;

		if (memory->out[i] != value(previous, i) + added ||
			(i < 100 && (memory->out[COUNT_MAX + i] != value(env->rank, i) + added ||
					    memory->in[COUNT_MAX + i] != sum)))
			return world_report(env, "element %zu is %g", i, memory->out[i]);
	}
	return 0;
}

WITH_MEMORY(capture_transfers)
{
	struct rd_graph *graph = NULL;
	int wrong = 0;

	TRY(rd_graph_begin(memory->stream));
	TRY(call_around(env, memory));
	TRY(rd_graph_end(memory->stream, &graph));
	wrong = expect_floats(env, memory->out, COUNT_MAX, 0);
	for (int replay = 0; replay < 60 && !wrong; replay++) {
		for (size_t i = 0; i < COUNT_MAX; i++)
			memory->in[i] = value(env->rank, i) + (float)replay;
		/* Others in between are counted apart, or together. */
		if (rd_graph_launch(graph) || rondo_stream_synchronize(memory->stream) ||
			(replay % 20 == 5 &&
				(make_other_calls(env, memory) || call_around(env, memory) ||
					rondo_stream_synchronize(memory->stream))))
			wrong = world_report(env, "%s", rondo_last_error());
		if (!wrong)
			wrong = check_around(env, memory, (float)replay);
	}
	rd_graph_destroy(graph);
	return wrong;
}

Test(gpu_graphs, transfers_are_captured_and_replayed_too, .timeout = 120)
{
	for (int i = 0; i < 2; i++) {
		cr_expect_eq(try_body(&fused_variants[i], 3, capture_transfers, 0), 0, "%s",
			fused_variants[i].threads ? "threads" : "processes");
	}
}

/* Stepped and staged they are not, and it does no harm. */
static int capture_transfers_in_vain(struct rank_env *env)
{
	const struct variant *variant = env->argument;
	struct rd_graph *graph;
	struct memory memory;
	int wrong, err;

	if (variant->becomes == RD_KERNEL_FUSED)
		return 0;
	wrong = open_memory(env, &memory);
	if (wrong)
		return wrong;
	TRY(rd_graph_begin(memory.stream));
	err = call_around(env, &memory);
	if (err != RONDO_UNSUPPORTED ||
		!strstr(rondo_last_error(), "a transfer cannot be captured"))
		wrong = world_report(env, "%s: %s", rondo_error_name(err), rondo_last_error());
	TRY(rd_graph_end(memory.stream, &graph));
	rd_graph_destroy(graph);
	fill_floats(memory.in, env->rank, COUNT_MAX);
	TRY(call_around(env, &memory));
	TRY(rondo_stream_synchronize(memory.stream));
	if (!wrong)
		wrong = check_around(env, &memory, 0);
	close_memory(&memory);
	return wrong;
}

Test(gpu_graphs, transfers_that_cannot_be_captured_say_why, .timeout = 120)
{
	try_variants(3, capture_transfers_in_vain, 0, true);
}

WITH_MEMORY(capture_in_vain)
{
	const struct variant *variant = env->argument;
	const char *reason = variant->becomes == RD_KERNEL_STAGED    ? "go through host memory"
			     : variant->becomes == RD_KERNEL_STEPPED ? "take turns on a device"
								     : "have no kernel for it";
	struct rd_graph *graph;
	rondo_op own;
	int wrong = 0, err;

	rondo_op_create(env->comm, &own, subtract, 0, NULL);
	rd_graph_begin(memory->stream);
	err = rondo_all_reduce(
		env->comm, memory->in, memory->out, 10, RONDO_F32, own, memory->stream);
	if (err != RONDO_UNSUPPORTED || !strstr(rondo_last_error(), reason))
		wrong = world_report(env, "%s: %s", rondo_error_name(err), rondo_last_error());
	rd_graph_end(memory->stream, &graph);
	rd_graph_destroy(graph);
	/* And does no harm. */
	if (!wrong)
		wrong = expect_error(env, one_call(env, memory, 1000), 0);
	return wrong;
}

Test(gpu_graphs, what_cannot_be_captured_says_why, .timeout = 120)
{
	try_variants(3, capture_in_vain, 0, true);
}

/* Every way takes those of no elements, and only those where the host takes part in calls. */
WITH_MEMORY(capture_empty_calls)
{
	const struct variant *variant = env->argument;
	bool with_barrier = variant->becomes == RD_KERNEL_FUSED;
	struct rd_graph *graph;
	int wrong = 0;

	TRY(rd_graph_begin(memory->stream));
	for (int collective = 0; collective < RD_COLLECTIVE_COUNT; collective++)
		if (collective != RD_TRANSFER && collective != RD_BARRIER)
			TRY(call_collective(env->comm, collective, memory->in, memory->out, 0,
				RONDO_F32, RONDO_SUM, 1, memory->stream));
	if (with_barrier)
		TRY(rondo_barrier(env->comm, memory->stream));
	else if (variant->becomes != RD_KERNEL_MESSAGES)
		EXPECT_ERROR(rondo_barrier(env->comm, memory->stream), RONDO_UNSUPPORTED,
			"barrier cannot be captured");
	TRY(rd_graph_end(memory->stream, &graph));
	for (int replay = 0; replay < 3; replay++) {
		TRY(rd_graph_launch(graph));
		TRY(rondo_stream_synchronize(memory->stream));
		fill_floats(memory->in, env->rank, COUNT_MAX);
		TRY(call_around(env, memory));
		TRY(rondo_stream_synchronize(memory->stream));
		if (!wrong)
			wrong = check_around(env, memory, 0);
	}
	rd_graph_destroy(graph);
	return wrong;
}

Test(gpu_graphs, collectives_of_no_elements_are_captured_by_every_way, .timeout = 120)
{
	try_variants(3, capture_empty_calls, 0, true);
}

/* The program waits for a stream that it captures. Nothing can be recorded from then on, which is
   the program's to mend. */
WITH_MEMORY(call_in_an_invalidated_capture)
{
	static const char words[] = "the capture of the stream was invalidated by an earlier error";
	struct rd_graph *graph;
	int wrong = 0;

	TRY(rd_graph_begin(memory->stream));
	EXPECT_ERROR(
		rondo_stream_synchronize(memory->stream), RONDO_SYSTEM, "cannot wait for a stream");
	EXPECT_ERROR(one_call(env, memory, 10), RONDO_INVALID, words);
	EXPECT_ERROR(rondo_barrier(env->comm, memory->stream), RONDO_INVALID, words);
	EXPECT_ERROR(call_around(env, memory), RONDO_INVALID, words);
	EXPECT_ERROR(rondo_copy(memory->out, memory->in, 8, memory->stream), RONDO_INVALID, words);
	EXPECT_ERROR(rondo_stream_query(memory->stream), RONDO_INVALID, words);
	EXPECT_ERROR(rd_graph_end(memory->stream, &graph), RONDO_SYSTEM, "cannot make a graph");
	/* The comm is as good as ever. */
	fill_floats(memory->in, env->rank, COUNT_MAX);
	TRY(call_around(env, memory));
	TRY(rondo_stream_synchronize(memory->stream));
	wrong = check_around(env, memory, 0);
	return wrong;
}

Test(gpu_graphs, an_invalidated_capture_takes_no_call_and_ends_no_comm, .timeout = 120)
{
	try_variants(3, call_in_an_invalidated_capture, 0, true);
}

/* Elements of a call that is too long to go without the buffers' addresses. */
#define WITH_ADDRESSES 10000

static int capture_on_rank_1(struct rank_env *env, struct memory *memory)
{
	struct rd_graph *graph;
	int err;

	if (env->rank != 1)
		return one_call(env, memory, WITH_ADDRESSES);
	err = rd_graph_begin(memory->stream);
	if (!err)
		err = rondo_all_reduce(env->comm, memory->in, memory->out, WITH_ADDRESSES,
			RONDO_F32, RONDO_SUM, memory->stream);
	rd_graph_end(memory->stream, &graph);
	rd_graph_destroy(graph);
	return err;
}

static int capture_on_one(struct rank_env *env)
{
	int wrong = expect_mismatch(env, WITH_ADDRESSES, capture_on_rank_1);

	if (!wrong && !strstr(rondo_last_error(), "captured all_reduce"))
		wrong = world_report(env, "%s", rondo_last_error());
	return wrong;
}

Test(gpu_graphs, a_call_that_only_some_capture_is_a_mismatch, .timeout = 60)
{
	cr_expect_eq(try_body(&fused_variants[1], 3, capture_on_one, 0), 0);
}

static int capture_a_transfer_on_rank_1(struct rank_env *env, struct memory *memory)
{
	struct rd_graph *graph;
	int err = 0;

	if (env->rank == 1)
		err = rd_graph_begin(memory->stream);
	if (!err)
		err = call_around(env, memory);
	if (env->rank != 1)
		return err ? err : rondo_stream_synchronize(memory->stream);
	rd_graph_end(memory->stream, &graph);
	rd_graph_destroy(graph);
	return err;
}

static int capture_a_transfer_on_one(struct rank_env *env)
{
	int wrong = expect_mismatch(env, COUNT_MAX, capture_a_transfer_on_rank_1);

	if (!wrong && !strstr(rondo_last_error(), "a captured transfer"))
		wrong = world_report(env, "%s", rondo_last_error());
	return wrong;
}

Test(gpu_graphs, a_transfer_that_only_one_side_captures_is_a_mismatch, .timeout = 60)
{
	cr_expect_eq(try_body(&fused_variants[1], 3, capture_a_transfer_on_one, 0), 0);
}
