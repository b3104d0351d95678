/* ctest label: threads */
/* Calls beside captures: they are queued and run while others, or their streams, are captured. */
#include <criterion/criterion.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "api/graph.h"
#include "api/stream.h"
#include "base/futex.h"
#include "comm/comm.h"
#include "device/device_stream.h"
#include "gpus.h"
#include "variants.h"

/* Elements of a call that is too long to go without the buffers' addresses. */
#define WITH_ADDRESSES 10000

/* The host exchanges the addresses of captured calls. */
static const struct variant fused = { "4", "auto", false, NULL, RD_KERNEL_FUSED };

/* ---- Behind other calls -------------------------------------------------------------------- */

/* Captures sums of the input behind COUNT elements of the output; they are not replayed. */
static int capture_sums(struct rank_env *env, struct memory *memory, int calls)
{
	struct rd_graph *graph;
	rondo_stream *other;

	TRY(rondo_stream_create_on(&other, env->rank % rondo_device_count()));
	TRY(rd_graph_begin(other));
	for (int i = 0; i < calls; i++)
		TRY(rondo_all_reduce(env->comm, memory->in, memory->out + WITH_ADDRESSES,
			WITH_ADDRESSES, RONDO_F32, RONDO_SUM, other));
	TRY(rd_graph_end(other, &graph));
	rd_graph_destroy(graph);
	rondo_stream_destroy(other);
	return 0;
}

static int await_mapped(struct rank_env *env)
{
	const struct rd_gpu *gpu = env->comm->gpu;

	for (int i = 0; i < 20000; i++) {
		if (rd_flag_reached(&gpu->own_flags->mapped, gpu->announced))
			return 0;
		usleep(1000);
	}
	return world_report(env, "announced calls are not mapped");
}

/* The first call waits in its stream until the addresses of all others are there. */
static int call_behind_captures(struct rank_env *env, int captured)
{
	uint32_t *gate;
	struct memory memory;
	int wrong = open_room(env, &memory, WITH_ADDRESSES);
	const struct rd_device_stream *stream;

	if (!wrong)
		wrong = open_flag(env, &gate);
	if (wrong)
		return wrong;
	stream = rd_stream_device_stream(memory.stream);
	for (int i = 0; i < WITH_ADDRESSES; i++)
		memory.in[i] = (float)(env->rank + 1);
	TRY(one_call(env, &memory, WITH_ADDRESSES));
	memset(memory.out, 0, 2 * WITH_ADDRESSES * sizeof(float));
	TRY(rd_stream_wait(stream->ops, stream->device, stream->stream, gate, 1));
	TRY(rondo_all_reduce(env->comm, memory.in, memory.out, WITH_ADDRESSES, RONDO_F32, RONDO_SUM,
		memory.stream));
	wrong = capture_sums(env, &memory, captured);
	for (int i = 1; i < RD_RUN_AHEAD && !wrong; i++)
		TRY(rondo_all_reduce(env->comm, memory.in, memory.out + WITH_ADDRESSES,
			WITH_ADDRESSES, RONDO_F32, RONDO_SUM, memory.stream));
	if (!wrong)
		wrong = await_mapped(env);
	rd_flag_write(gate, 1);
	TRY(rondo_stream_synchronize(memory.stream));
	if (!wrong)
		wrong = expect_floats(env, memory.out, 2 * WITH_ADDRESSES, 6);
	close_flag(gate);
	close_memory(&memory);
	return wrong;
}

static int call_behind_one(struct rank_env *env)
{
	return call_behind_captures(env, 1);
}

static int call_behind_two(struct rank_env *env)
{
	return call_behind_captures(env, 2);
}

static int call_behind_many(struct rank_env *env)
{
	return call_behind_captures(env, 3 * RD_RUN_AHEAD);
}

Test(gpu_beside_captures, captured_calls_leave_a_queued_call_its_addresses, .timeout = 120)
{
	struct trial trials[] = { { &fused, 3, call_behind_one, 0 },
		{ &fused, 3, call_behind_two, 0 }, { &fused, 3, call_behind_many, 0 } };

	for (int i = 0; i < 3; i++)
		cr_expect_eq(in_child(run_trial, &trials[i]), 0, "%d", i);
}

/* A graph keeps the places of so many allocations that a call's buffers find one, or none. */
static int call_beside_kept_buffers(struct rank_env *env, int kept)
{
	int device = env->rank % rondo_device_count();
	size_t size = WITH_ADDRESSES * sizeof(float);
	struct rd_graph *graph;
	struct memory memory;
	float *buffers[RD_EXPORTS];
	int wrong = open_room(env, &memory, WITH_ADDRESSES);

	if (wrong)
		return wrong;
	TRY(rd_graph_begin(memory.stream));
	for (int i = 0; i < kept; i++) {
		TRY(rondo_mem_alloc_on((void **)&buffers[i], size, device));
		TRY(rondo_all_reduce(env->comm, buffers[i], buffers[i], WITH_ADDRESSES, RONDO_F32,
			RONDO_SUM, memory.stream));
	}
	TRY(rd_graph_end(memory.stream, &graph));
	for (int i = 0; i < WITH_ADDRESSES; i++)
		memory.in[i] = (float)(env->rank + 1);
	TRY(one_call(env, &memory, WITH_ADDRESSES));
	wrong = expect_floats(env, memory.out, WITH_ADDRESSES, 6);
	TRY(rd_graph_launch(graph));
	TRY(rondo_stream_synchronize(memory.stream));
	rd_graph_destroy(graph);
	for (int i = 0; i < kept; i++)
		rondo_mem_free(buffers[i]);
	close_memory(&memory);
	return wrong;
}

static int call_with_one_place(struct rank_env *env)
{
	return call_beside_kept_buffers(env, RD_EXPORTS - RD_BOUNCES - 1);
}

static int call_with_no_place(struct rank_env *env)
{
	return call_beside_kept_buffers(env, RD_EXPORTS - RD_BOUNCES);
}

Test(gpu_beside_captures, buffers_of_graphs_leave_a_queued_call_room, .timeout = 120)
{
	struct trial trials[] = { { &fused, 3, call_with_one_place, 5000 },
		{ &fused, 3, call_with_no_place, 5000 } };

	for (int i = 0; i < 2; i++)
		cr_expect_eq(in_child(run_trial, &trials[i]), 0, "%d", i);
}

/* ---- On another stream --------------------------------------------------------------------- */

/* A wrong order shows within this time, or hardly ever. */
#define MOMENT_MS 200

struct gate {
	uint32_t *open;
	const struct rd_gpu *gpu;
	uint32_t finished; /* the last call before those behind the gate */
};

static void *open_later(void *argument)
{
	struct gate *gate = argument;
	const uint32_t *finished = &gate->gpu->stream_flags->finished;

	for (int i = 0; i < MOMENT_MS && !rd_flag_reached(finished, gate->finished + 1); i++)
		usleep(1000);
	rd_flag_write(gate->open, 1);
	return NULL;
}

/* On rank 0, its input and its first call lie behind the gate. */
static int call_behind(struct rank_env *env, struct memory *memory, uint32_t *gate)
{
	const struct rd_device_stream *stream = rd_stream_device_stream(memory->stream);

	if (env->rank == 0)
		TRY(rd_stream_wait(stream->ops, stream->device, stream->stream, gate, 1));
	TRY(rondo_copy(memory->in, memory->out + WITH_ADDRESSES, WITH_ADDRESSES * sizeof(float),
		memory->stream));
	TRY(rondo_all_reduce(env->comm, memory->in, memory->out, WITH_ADDRESSES, RONDO_F32,
		RONDO_SUM, memory->stream));
	return 0;
}

/* The second call is on another stream, while the first one's is being captured. */
static int call_on_two_streams(
	struct rank_env *env, struct memory *memory, rondo_stream *other, uint32_t *flag)
{
	struct gate gate = {
		.open = flag, .gpu = env->comm->gpu, .finished = env->comm->gpu->number
	};
	struct rd_graph *graph;
	pthread_t opener;
	int wrong = call_behind(env, memory, flag);

	if (!wrong && env->rank == 0) {
		TRY(rd_graph_begin(memory->stream));
		TRY(pthread_create(&opener, NULL, open_later, &gate));
	}
	if (!wrong)
		TRY(rondo_all_reduce(env->comm, memory->in + WITH_ADDRESSES,
			memory->in + WITH_ADDRESSES, WITH_ADDRESSES, RONDO_F32, RONDO_SUM, other));
	TRY(rondo_stream_synchronize(other));
	if (!wrong && env->rank == 0) {
		pthread_join(opener, NULL);
		TRY(rd_graph_end(memory->stream, &graph));
		rd_graph_destroy(graph);
	}
	TRY(rondo_stream_synchronize(memory->stream));
	return wrong ? wrong : expect_floats(env, memory->out, WITH_ADDRESSES, (float)env->size);
}

static int beside_a_capture(struct rank_env *env)
{
	const struct variant *variant = env->argument;
	struct memory memory;
	rondo_stream *other;
	uint32_t *flag;
	int wrong = open_room(env, &memory, WITH_ADDRESSES);

	if (!wrong)
		wrong = open_flag(env, &flag);
	if (wrong)
		return wrong;
	TRY(rondo_stream_create_on(&other, env->rank % rondo_device_count()));
	for (int i = 0; i < WITH_ADDRESSES; i++)
		memory.out[WITH_ADDRESSES + i] = 1;
	TRY(one_call(env, &memory, WITH_ADDRESSES));
	/* Those are launched. */
	if (variant->becomes != RD_KERNEL_MESSAGES)
		wrong = call_on_two_streams(env, &memory, other, flag);
	close_flag(flag);
	rondo_stream_destroy(other);
	close_memory(&memory);
	return wrong;
}

Test(gpu_beside_captures, a_call_follows_the_last_one_while_its_stream_is_captured, .timeout = 120)
{
	try_variants(3, beside_a_capture, 5000, true);
}

/* The host cannot tell when a launched call is done: the next one is refused, and made again. */
WITH_MEMORY(after_a_launched_call)
{
	const struct variant *variant = env->argument;
	bool launched =
		variant->becomes == RD_KERNEL_MESSAGES || (env->comm && env->comm->gpu->spins);
	struct rd_graph *graph;
	rondo_stream *other;
	int wrong = 0;

	TRY(rondo_stream_create_on(&other, env->rank % rondo_device_count()));
	memory->in[0] = (float)(env->rank + 1);
	TRY(rondo_all_reduce(
		env->comm, memory->in, memory->out, 1, RONDO_F32, RONDO_SUM, memory->stream));
	if (launched && env->rank == 0) {
		TRY(rd_graph_begin(memory->stream));
		EXPECT_ERROR(rondo_all_reduce(env->comm, memory->in, memory->out, 1, RONDO_F32,
				     RONDO_SUM, other),
			RONDO_UNSUPPORTED, "end the capture first");
		TRY(rd_graph_end(memory->stream, &graph));
		rd_graph_destroy(graph);
	}
	TRY(rondo_all_reduce(env->comm, memory->out, memory->out, 1, RONDO_F32, RONDO_SUM, other));
	TRY(rondo_stream_synchronize(other));
	wrong = expect_floats(env, memory->out, 1, 18);
	rondo_stream_destroy(other);
	return wrong;
}

Test(gpu_beside_captures, a_call_that_cannot_follow_a_launched_one_is_refused, .timeout = 120)
{
	try_variants(3, after_a_launched_call, 0, true);
}

/* ---- Memory that other processes cannot map ------------------------------------------------- */

/* From rank 1 to rank 2. */
static int send_on(struct rank_env *env, struct memory *memory)
{
	if (env->rank == 1)
		return rondo_send(
			env->comm, memory->in, WITH_ADDRESSES, RONDO_F32, 2, memory->stream);
	if (env->rank == 2)
		return rondo_recv(
			env->comm, memory->out, WITH_ADDRESSES, RONDO_F32, 1, memory->stream);
	return 0;
}

static int refuse_captures(struct rank_env *env, struct memory *memory)
{
	struct rd_graph *graph;

	TRY(rd_graph_begin(memory->stream));
	EXPECT_ERROR(rondo_all_reduce(env->comm, memory->in, memory->out, WITH_ADDRESSES, RONDO_F32,
			     RONDO_SUM, memory->stream),
		RONDO_UNSUPPORTED, "cannot map a buffer of rank 1");
	if (env->rank > 0)
		EXPECT_ERROR(send_on(env, memory), RONDO_UNSUPPORTED, "its sender's buffer");
	TRY(rd_graph_end(memory->stream, &graph));
	rd_graph_destroy(graph);
	return 0;
}

/* Rank 1's memory has no handles. The calls then go on, copied within its device first. */
static int capture_out_of_reach(struct rank_env *env)
{
	struct memory memory;
	int wrong;

	if (env->rank == 1)
		give_handles(false);
	wrong = open_room(env, &memory, WITH_ADDRESSES);
	give_handles(true);
	if (wrong)
		return wrong;
	for (int i = 0; i < WITH_ADDRESSES; i++)
		memory.in[i] = (float)(env->rank + 1);
	for (int round = 0; round < 2 && !wrong; round++) {
		wrong = refuse_captures(env, &memory);
		if (!wrong)
			TRY(one_call(env, &memory, WITH_ADDRESSES));
		if (!wrong)
			wrong = expect_floats(env, memory.out, WITH_ADDRESSES, 6);
		if (!wrong)
			TRY(send_on(env, &memory));
		TRY(rondo_stream_synchronize(memory.stream));
		if (!wrong && env->rank == 2)
			wrong = expect_floats(env, memory.out, WITH_ADDRESSES, 2);
	}
	close_memory(&memory);
	return wrong;
}

Test(gpu_beside_captures, a_capture_that_one_ranks_memory_refuses_harms_no_other_call,
	.timeout = 60)
{
	cr_expect_eq(try_body(&fused, 3, capture_out_of_reach, 3000), 0);
}
