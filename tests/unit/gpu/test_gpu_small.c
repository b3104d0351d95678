/*
 * Calls of few bytes on devices, whose data comes with its flag: each collective, beside the same
 * call in host memory; ranks that do not keep step; failures; graphs. On real GPUs where there are
 * some.
 */
#include <criterion/criterion.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "call_collective.h"
#include "cuda_calls.h"
#include "device/small_work.h"
#include "gpu/compile_direct.h"
#include "gpus.h"
#include "plan/collective.h"

TestSuite(gpu_small, .init = gpu_die_with_parent);

/* Bytes of a buffer; a call has no more for all ranks than half of them. */
#define ROOM (2 * RD_LL_BUFFER_SIZE)
/* Longer than any test. */
#define NEVER_MS 300000

static int call(rondo_comm *comm, const struct gpu_request *request, const void *in, void *out,
	rondo_stream *stream)
{
	return call_collective(comm, request->collective, in, out, request->count, request->type,
		request->op, request->root, stream);
}

/* ---- Beside the host ----------------------------------------------------------------------- */

/* Elements of the longest small call. */
static size_t most(struct rank_env *env, const struct gpu_request *request)
{
	struct rd_problem problem = { .collective = request->collective, .size = env->size };

	return (RD_LL_BUFFER_SIZE - 8) / (rd_blocks(&problem) * rondo_type_size(request->type));
}

static int try_type(struct rank_env *env, struct gpu_buffers *both, rondo_type type)
{
	int wrong = 0, turn = type;

	for (int collective = 0; collective < RD_COLLECTIVE_COUNT; collective++)
		for (int i = 0; i < 4 && !wrong && collective != RD_TRANSFER; i++, turn++) {
			struct gpu_request request = { .collective = collective,
				.type = type,
				.root = turn % env->size,
				.in_place = (type + i) % 2 };
			size_t counts[] = { 1, 37, most(env, &request), most(env, &request) + 1 };

			request.count = counts[i];
			do
				request.op = (rondo_op)((request.op + turn) % RONDO_OP_COUNT);
			while (!rondo_op_applies(request.op, type) && ++turn);
			wrong = gpu_beside_the_host(env, both, &request);
		}
	return wrong;
}

static int as_on_the_host(struct rank_env *env)
{
	struct gpu_buffers *both;
	int wrong = gpu_buffers_open(env, &both, ROOM);

	for (int type = 0; type < RONDO_TYPE_COUNT && !wrong; type++)
		wrong = try_type(env, both, type);
	gpu_buffers_close(both);
	return wrong;
}

static void try_sizes(int (*body)(struct rank_env *env))
{
	setenv("EMULATED_GPUS", "4", 1);
	if (!has_gpus(1))
		cr_skip_test(NO_GPU);
	for (int size = 2; size <= 4; size++) {
		struct gpu_trial trial = { "auto", { .size = size, .threads = true }, body };

		cr_expect_eq(gpu_trial_run(&trial), 0, "%d threads", size);
	}
	/* Those that share a device take turns on it. */
	if (has_gpus(2)) {
		struct gpu_trial trial = { "auto", { .size = 2 }, body };

		cr_expect_eq(gpu_trial_run(&trial), 0, "processes");
	}
}

Test(gpu_small, every_collective_gives_the_hosts_bits, .timeout = 240)
{
	try_sizes(as_on_the_host);
}

/* ---- Out of step --------------------------------------------------------------------------- */

/*
 * Rank 0 has many calls under way, and gets nothing from anybody, before rank 1 makes its first: it
 * must not put the third call's data where rank 1 has yet to find the first's.
 */
static int run_ahead(struct rank_env *env)
{
	enum { CALLS = 12 };
	static atomic_int queued;
	struct gpu_buffers *both;
	struct gpu_request request = { RD_BROADCAST, RONDO_I32, RONDO_SUM, 3, 0, false, 0, 0 };
	int wrong = gpu_buffers_open(env, &both, ROOM), *host;

	if (wrong)
		return wrong;
	host = (int *)both->host_in;
	for (int i = 0; i < CALLS * 3; i++)
		host[i] = env->rank * 1000 + i;
	TRY(rondo_copy(both->in, host, CALLS * 12, NULL));
	while (env->rank == 1 && queued < CALLS)
		usleep(100);
	/* So that it would have done them all, did it not wait for rank 1. */
	if (env->rank == 1)
		usleep(50000);
	for (int i = 0; i < CALLS; i++, queued += env->rank == 0) {
		request.collective = i % 2 ? RD_SCATTER : RD_BROADCAST;
		request.count = i % 2 ? 1 : 3;
		TRY(call(env->comm, &request, both->in + i * 12, both->out + i * 12, both->stream));
	}
	TRY(rondo_copy(both->got, both->out, CALLS * 12, both->stream));
	TRY(rondo_stream_synchronize(both->stream));
	for (int i = 0; i < CALLS && !wrong; i++) {
		int right = 3 * i + (i % 2 ? env->rank : 0), got = ((int *)both->got)[3 * i];

		if (got != right)
			wrong = world_report(env, "call %d gives %d, not %d", i, got, right);
	}
	gpu_buffers_close(both);
	return wrong;
}

/* Ranks that are threads on one device meet while they queue. */
Test(gpu_small, a_root_does_not_run_away_from_the_others, .timeout = 60)
{
	struct gpu_trial trial = { "auto", { .size = 2, .threads = true }, run_ahead };

	if (!has_gpus(2))
		cr_skip_test("it needs two GPUs");
	cr_expect_eq(gpu_trial_run(&trial), 0);
}

/* ---- Copies -------------------------------------------------------------------------------- */

/*
 * Rank 2, on rank 0's device, makes its call late. The others copy the result at once, to memory
 * that is not pinned: a driver may let nobody queue anything until the copy is done.
 */
static int copy_before_the_last_has_called(struct rank_env *env)
{
	struct gpu_buffers *both;
	int *host, wrong = gpu_buffers_open(env, &both, ROOM);

	if (wrong)
		return wrong;
	host = (int *)both->host_in;
	host[0] = 1 + env->rank;
	TRY(rondo_copy(both->in, host, sizeof(int), both->stream));
	if (env->rank == 2)
		usleep(50000);
	TRY(rondo_all_reduce(
		env->comm, both->in, both->out, 1, RONDO_I32, RONDO_SUM, both->stream));
	TRY(rondo_copy(host, both->out, sizeof(int), both->stream));
	TRY(rondo_stream_synchronize(both->stream));
	if (host[0] != 1 + 2 + 3)
		wrong = world_report(env, "the sum is %d", host[0]);
	gpu_buffers_close(both);
	return wrong;
}

Test(gpu_small, a_copy_to_memory_that_is_not_pinned_holds_up_no_peer, .timeout = 60)
{
	struct gpu_trial trial = { "auto", { .size = 3, .threads = true },
		copy_before_the_last_has_called };

	if (!has_gpus(1))
		cr_skip_test(NO_GPU);
	cr_expect_eq(gpu_trial_run(&trial), 0, "fused");
	trial.kernel = "stepped";
	cr_expect_eq(gpu_trial_run(&trial), 0, "stepped");
}

/* ---- Failures ------------------------------------------------------------------------------ */

/* The error of one call, or of the stream after it. */
static int one_call(struct rank_env *env, struct gpu_buffers *both, enum rd_collective collective)
{
	struct gpu_request request = { collective, RONDO_F32, RONDO_SUM, 3, 0, false, 0, 0 };
	int err = call(env->comm, &request, both->in, both->out, both->stream);

	return err ? err : rondo_stream_synchronize(both->stream);
}

static int expect_error(struct rank_env *env, int err, int wanted)
{
	return err == wanted ? 0
			     : world_report(env, "%s, not %s: %s", rondo_error_name(err),
				       rondo_error_name(wanted), rondo_last_error());
}

/* The error also reaches a rank that receives in neither call: in one it has the data, in the other
   it is the root. */
static int call_otherwise(struct rank_env *env)
{
	struct gpu_buffers *both;
	int wrong = gpu_buffers_open(env, &both, ROOM), err;

	if (wrong)
		return wrong;
	/* A rank may receive the error in its call, but not while it creates its comm. */
	TRY(rondo_barrier(env->comm, NULL));
	err = one_call(env, both, env->rank == 1 ? RD_BROADCAST : RD_GATHER);
	wrong = expect_error(env, err, RONDO_MISMATCH);
	gpu_buffers_close(both);
	return wrong;
}

/* Rank 1 makes no second call. */
static int be_silent(struct rank_env *env)
{
	bool aborts = env->world->timeout_ms == NEVER_MS;
	struct gpu_buffers *both;
	int wrong = gpu_buffers_open(env, &both, ROOM), err;

	if (wrong)
		return wrong;
	err = one_call(env, both, RD_BARRIER);
	if (!err && env->rank != 1)
		err = one_call(env, both, RD_BROADCAST);
	if (aborts && env->rank == 1)
		rondo_comm_revoke(env->comm, "enough");
	for (int i = 0; i < 20000 && err == 0 && env->rank == 1; i++) {
		usleep(1000);
		err = rondo_comm_error(env->comm);
	}
	wrong = expect_error(env, err, aborts ? RONDO_REVOKED : RONDO_TIMEOUT);
	gpu_buffers_close(both);
	return wrong;
}

Test(gpu_small, failures_reach_all_ranks, .timeout = 120)
{
	struct gpu_trial differ = { "auto", { .size = 3, .threads = true }, call_otherwise };
	struct gpu_trial silent = { "auto", { .size = 3, .threads = true, .call_timeout_ms = 1000 },
		be_silent };
	struct gpu_trial aborts = { "auto", { .size = 3, .threads = true, .timeout_ms = NEVER_MS },
		be_silent };

	if (!has_gpus(1))
		cr_skip_test(NO_GPU);
	cr_expect_eq(gpu_trial_run(&differ), 0, "mismatch");
	cr_expect_eq(gpu_trial_run(&silent), 0, "silence");
	cr_expect_eq(gpu_trial_run(&aborts), 0, "abort");
}

/* ---- Graphs -------------------------------------------------------------------------------- */

/* Each collective in a slot of its own. */
#define SLOT (ROOM / RD_COLLECTIVE_COUNT / 64 * 64)

static int call_all(struct rank_env *env, const char *in, char *out, rondo_stream *stream)
{
	int err = 0;

	for (int collective = 0; collective < RD_COLLECTIVE_COUNT && !err; collective++) {
		struct gpu_request request = { collective, RONDO_I32, RONDO_SUM, 5, 1, false, 0,
			0 };

		if (collective != RD_TRANSFER)
			err = call(env->comm, &request, in, out + collective * SLOT, stream);
	}
	return err;
}

/* Between replays, calls outside of the graph, an odd number of them. */
static int replay_once(struct rank_env *env, struct gpu_buffers *both, const struct gpu_graphs *cu,
	void *exec, void *stream, rondo_stream *wrapped, int round)
{
	struct gpu_request request = { RD_ALL_REDUCE, RONDO_I32, RONDO_SUM, 5, 1, false, 0, 0 };
	int *host = (int *)both->host_in;

	for (int i = 0; i < 100; i++)
		host[i] = 1000 * env->rank + 17 * i + round;
	memset(both->host_out, 0, ROOM);
	TRY(rondo_copy(both->in, host, 400, wrapped));
	TRY(cu->launch(exec, stream));
	TRY(rondo_copy(both->got, both->out, ROOM, wrapped));
	TRY(rondo_stream_synchronize(wrapped));
	TRY(call_all(env, both->host_in, both->host_out, NULL));
	if (memcmp(both->got, both->host_out, ROOM) != 0)
		return world_report(env, "replay %d differs", round);
	for (int i = 0; i < round % 4; i++)
		TRY(call(env->comm, &request, both->in, both->in + ROOM / 2, both->stream));
	TRY(rondo_stream_synchronize(both->stream));
	return 0;
}

static int replay_all(struct rank_env *env)
{
	struct gpu_graphs cu;
	struct gpu_buffers *both;
	void *stream, *graph, *exec;
	rondo_stream *wrapped;
	int wrong = gpu_buffers_open(env, &both, ROOM), device = env->rank % rondo_device_count(),
	    err;

	if (wrong || !gpu_find_graphs(&cu))
		return wrong ? wrong : world_report(env, "the driver lacks graphs");
	if (gpu_open_stream(&cu, device, &stream, &wrapped) || gpu_begin(&cu, stream))
		return world_report(env, "capturing: %s", rondo_last_error());
	err = call_all(env, both->in, both->out, wrapped);
	if (err || cu.end(stream, &graph) || cu.instantiate(&exec, graph, 0))
		return world_report(env, "captured: %s", rondo_last_error());
	for (int round = 0; round < 10 && !wrong; round++)
		wrong = replay_once(env, both, &cu, exec, stream, wrapped, round);
	cu.destroy_exec(exec);
	cu.destroy_graph(graph);
	rondo_stream_destroy(wrapped);
	cu.destroy(stream);
	gpu_buffers_close(both);
	return wrong;
}

Test(gpu_small, every_collective_is_captured_in_a_graph_and_replayed, .timeout = 120)
{
	try_sizes(replay_all);
}

/* Processes that share a GPU: their kernels are as those on GPUs of their own. */
Test(gpu_small, so_it_is_among_processes_under_mps, .timeout = 120)
{
	struct gpu_trial trial = { "auto", { .size = 4 }, replay_all };

	setenv("EMULATED_MPS", "1", 1);
	if (!has_gpus(1))
		cr_skip_test(NO_GPU);
	if (!has_mps())
		cr_skip_test("MPS is not active here");
	cr_expect_eq(gpu_trial_run(&trial), 0, "replays");
	trial.body = as_on_the_host;
	cr_expect_eq(gpu_trial_run(&trial), 0, "beside the host");
}

/* ---- Bytes that a launch copies ------------------------------------------------------------ */

struct counted {
	struct cuda_calls cuda;
	struct gpu_graphs cu;
	struct gpu_buffers *both;
	void *stream;
	rondo_stream *wrapped;
};

static int call_once(
	struct rank_env *env, const struct counted *counted, const struct gpu_request *request)
{
	TRY(call(env->comm, request, counted->both->in, counted->both->out, counted->wrapped));
	return 0;
}

static int call_in_a_graph(
	struct rank_env *env, const struct counted *counted, const struct gpu_request *request)
{
	const struct gpu_graphs *cu = &counted->cu;
	void *graph, *exec;

	TRY(gpu_begin(cu, counted->stream));
	if (call_once(env, counted, request))
		return 1;
	TRY(cu->end(counted->stream, &graph));
	TRY(cu->instantiate(&exec, graph, 0));
	TRY(cu->launch(exec, counted->stream));
	TRY(cu->synchronize(counted->stream));
	TRY(cu->destroy_exec(exec));
	TRY(cu->destroy_graph(graph));
	return 0;
}

/* The host's barriers keep other launches away while one call of all ranks is counted. */
static int count_bytes(struct rank_env *env, const struct counted *counted,
	const struct gpu_request *request, bool captured)
{
	size_t before, bytes;

	TRY(rondo_barrier(env->comm, NULL));
	before = counted->cuda.parameter_bytes();
	TRY(rondo_barrier(env->comm, NULL));
	if (captured ? call_in_a_graph(env, counted, request) : call_once(env, counted, request))
		return 1;
	TRY(rondo_stream_synchronize(counted->wrapped));
	TRY(rondo_barrier(env->comm, NULL));
	bytes = counted->cuda.parameter_bytes() - before;
	if (bytes == (size_t)env->size * sizeof(struct rd_small_work))
		return 0;
	return world_report(env, "%s%s: %zu bytes of all ranks",
		rd_collective_name(request->collective), captured ? ", captured" : "", bytes);
}

static int count_each(struct rank_env *env, const struct counted *counted)
{
	int wrong = 0;

	for (int turn = 0; turn < 2 * RD_COLLECTIVE_COUNT && !wrong; turn++) {
		struct gpu_request request = { turn / 2, RONDO_F32, RONDO_SUM, 5, 1, false, 0, 0 };

		if (request.collective != RD_TRANSFER)
			wrong = count_bytes(env, counted, &request, turn % 2);
	}
	return wrong;
}

static int few_bytes_are_passed(struct rank_env *env)
{
	struct counted counted;
	int wrong = gpu_buffers_open(env, &counted.both, ROOM);
	int device = env->rank % rondo_device_count();

	if (wrong || !cuda_calls_find(&counted.cuda) || !gpu_find_graphs(&counted.cu))
		return wrong ? wrong : world_report(env, "the driver lacks graphs");
	if (gpu_open_stream(&counted.cu, device, &counted.stream, &counted.wrapped))
		return world_report(env, "opening a stream: %s", rondo_last_error());
	wrong = count_each(env, &counted);
	rondo_stream_destroy(counted.wrapped);
	counted.cu.destroy(counted.stream);
	gpu_buffers_close(counted.both);
	return wrong;
}

Test(gpu_small, a_launch_passes_few_bytes_to_the_kernel, .timeout = 60)
{
	struct gpu_trial trial = { "auto", { .size = 2, .threads = true }, few_bytes_are_passed };

	if (!has_tests_driver())
		cr_skip_test(NO_TESTS_DRIVER);
	cr_expect_eq(gpu_trial_run(&trial), 0);
}

/* A small call of one rank whose peers are silent: what they find when they come. */

#define RANKS 3
#define COUNT 101 /* of f32: the last unit is half full */
#define UNITS ((COUNT * sizeof(float) + 7) / 8)

/* Were units sent one by one, each would wait for the one before it to come from all peers. */
Test(small_work, all_units_are_sent_before_the_first_is_awaited)
{
	struct rd_call call = {
		.problem = { .collective = RD_ALL_REDUCE, .rank = 1, .size = RANKS },
		.type = RONDO_F32,
		.count = COUNT,
	};
	struct rd_abort_flag abort_flag = { 0 };
	struct rd_device_flags *flags = calloc(RANKS, sizeof(*flags));
	float in[COUNT + 1], out[COUNT];
	struct rd_small_work work;

	for (int i = 0; i <= COUNT; i++)
		in[i] = (float)i;
	call.in = in;
	call.out = out;
	rd_compile_small(&work, &call);
	work.timeout_ns = 1;
	work.abort_flag = &abort_flag;
	work.signature = 77;
	for (int rank = 0; rank < RANKS; rank++)
		work.peer_device_flags[rank] = &flags[rank];
	run_small_kernel(&work);
	cr_expect_eq(abort_flag.error, RD_ABORT_SILENCE);
	for (int peer = 0; peer < RANKS; peer += 2) {
		const struct rd_ll *got = flags[peer].ll_buffer[1][1];

		cr_expect_eq(got[0].low, 77);
		for (size_t at = 0; at <= UNITS; at++)
			cr_expect(got[at].number_a == 1 && got[at].number_b == 1,
				"unit %zu has not been sent to rank %d", at, peer);
		for (size_t i = 0; i < COUNT; i++)
			cr_expect_eq(
				((const float *)&got[1 + i / 2])[2 * (i % 2)], in[i], "%zu", i);
	}
	free(flags);
}
