/*
 * Many mixed calls on devices, through the public header alone. On real GPUs tests/gpu.sh has these
 * run longer, by GPU_CALLS.
 */
#include <criterion/criterion.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "gpus.h"
#include "text.h"
#include "elements.h"

TestSuite(gpu, .init = gpu_die_with_parent);

#define COUNT_MAX 20000

/* The limit of a world that makes many calls. */
#define LONG_MS 400000

static int calls_to_make(int otherwise)
{
	const char *text = getenv("GPU_CALLS");

	return text && atoi(text) > 0 ? atoi(text) : otherwise;
}

/* ---- Mixed calls --------------------------------------------------------------------------- */

struct buffers {
	float *in, *out; /* on the device */
	float *host; /* [size * COUNT_MAX] */
	rondo_stream *stream;
};

static int open_buffers(struct rank_env *env, struct buffers *buffers)
{
	size_t bytes = (size_t)env->size * COUNT_MAX * sizeof(double);
	int device;

	memset(buffers, 0, sizeof(*buffers));
	if (env->create_error)
		return world_report(env, "create: %s", rondo_last_error());
	device = env->rank % rondo_device_count();
	buffers->host = malloc(bytes);
	if (!buffers->host || rondo_mem_alloc_on((void **)&buffers->in, bytes, device) ||
		rondo_mem_alloc_on((void **)&buffers->out, bytes, device) ||
		rondo_stream_create_on(&buffers->stream, device))
		return world_report(env, "buffers: %s", rondo_last_error());
	return 0;
}

static void close_buffers(struct buffers *buffers)
{
	rondo_stream_destroy(buffers->stream);
	rondo_mem_free(buffers->in);
	rondo_mem_free(buffers->out);
	free(buffers->host);
}

static float value(int rank, size_t i, int call)
{
	return (float)((i * 7 + (size_t)rank * 3 + (size_t)call) % 11);
}

static float sum(int size, size_t i, int call)
{
	float all = 0;

	for (int rank = 0; rank < size; rank++)
		all += value(rank, i, call);
	return all;
}

/* The same dice on every rank. */
static uint32_t dice(int call, int which)
{
	uint32_t x = (uint32_t)call * 2654435761u + (uint32_t)which * 40503u + 17;

	x ^= x >> 15;
	x *= 2246822519u;
	return x ^ x >> 13;
}

static size_t length_of(int call)
{
	return dice(call, 1) % 4 ? dice(call, 2) % 300 + 1 : dice(call, 2) % COUNT_MAX + 1;
}

/* Sends to the rank `by` places on, and receives from the one as far back. */
static int shift(struct rank_env *env, const struct buffers *b, size_t count, int by)
{
	int rank = env->rank, size = env->size;

	rondo_group_start();
	rondo_send(env->comm, b->in, count, RONDO_F32, (rank + by) % size, b->stream);
	rondo_recv(env->comm, b->out, count, RONDO_F32, (rank + size - by) % size, b->stream);
	return rondo_group_end();
}

static int make_call(struct rank_env *env, const struct buffers *b, int call, size_t count)
{
	rondo_comm *comm = env->comm;
	int root = (int)(dice(call, 3) % (uint32_t)env->size);

	switch (dice(call, 4) % 7) {
	case 0:
		return rondo_all_gather(comm, b->in, b->out, count, RONDO_F32, b->stream);
	case 1:
		return rondo_reduce_scatter(
			comm, b->in, b->out, count, RONDO_F32, RONDO_SUM, b->stream);
	case 2:
		return rondo_broadcast(comm, b->in, b->out, count, RONDO_F32, root, b->stream);
	case 3:
		return rondo_all_to_all(comm, b->in, b->out, count, RONDO_F32, b->stream);
	case 4:
		return shift(env, b, count, root);
	}
	return rondo_all_reduce(comm, b->in, b->out, count, RONDO_F32, RONDO_SUM, b->stream);
}

static float wanted(struct rank_env *env, int call, size_t count, size_t at)
{
	int root = (int)(dice(call, 3) % (uint32_t)env->size);
	size_t ours = (size_t)env->rank * count;

	switch (dice(call, 4) % 7) {
	case 0:
		return value((int)(at / count), at % count, call);
	case 1:
		return sum(env->size, ours + at, call);
	case 2:
		return value(root, at, call);
	case 3:
		return value((int)(at / count), ours + at % count, call);
	case 4:
		return value((env->rank + env->size - root) % env->size, at, call);
	}
	return sum(env->size, at, call);
}

static size_t out_count(struct rank_env *env, int call, size_t count)
{
	uint32_t which = dice(call, 4) % 7;

	return which == 0 || which == 3 ? count * (size_t)env->size : count;
}

static int check_call(struct rank_env *env, struct buffers *b, int call, size_t count)
{
	size_t total = out_count(env, call, count);

	if (rondo_copy(b->host, b->out, total * sizeof(float), b->stream) ||
		rondo_stream_synchronize(b->stream))
		return world_report(env, "call %d: %s", call, rondo_last_error());
	for (size_t at = 0; at < total; at++) {
		float right = wanted(env, call, count, at);

		if (b->host[at] != right)
			return world_report(env, "call %d of %zu: element %zu is %g, not %g", call,
				count, at, b->host[at], right);
	}
	return 0;
}

static int mixed_calls(struct rank_env *env)
{
	struct buffers b;
	int calls = env->world->limit_ms == LONG_MS ? calls_to_make(2000) : 100;
	int wrong = open_buffers(env, &b);

	for (int call = 0; call < calls && !wrong; call++) {
		size_t count = length_of(call);

		for (size_t i = 0; i < count * (size_t)env->size; i++)
			b.host[i] = value(env->rank, i, call);
		if (rondo_copy(b.in, b.host, count * (size_t)env->size * sizeof(float), b.stream) ||
			make_call(env, &b, call, count))
			wrong = world_report(env, "call %d: %s", call, rondo_last_error());
		if (!wrong)
			wrong = check_call(env, &b, call, count);
	}
	close_buffers(&b);
	return wrong;
}

static void try_worlds(int (*body)(struct rank_env *env), int size)
{
	static const char *const kernels[] = { "auto", "stepped", "staged", "messages" };

	if (!has_gpus(1))
		cr_skip_test(NO_GPU);
	for (int threads = 0; threads < 2; threads++)
		/* Between processes on one GPU, messages would spin. */
		for (size_t i = 0; i < (threads ? 4 : 3); i++) {
			struct gpu_trial trial = { kernels[i],
				{ .size = size, .threads = threads, .limit_ms = 280000 }, body };

			cr_expect_eq(gpu_trial_run(&trial), 0, "%s %s", kernels[i],
				threads ? "threads" : "processes");
		}
}

Test(gpu, mixed_calls_are_right, .timeout = 600)
{
	try_worlds(mixed_calls, 4);
	try_worlds(mixed_calls, 8);
}

Test(gpu, eight_ranks_make_many_mixed_calls, .timeout = 420)
{
	struct gpu_trial trial = { "auto", { .size = 8, .threads = true, .limit_ms = LONG_MS },
		mixed_calls };

	if (!has_gpus(1))
		cr_skip_test(NO_GPU);
	cr_expect_eq(gpu_trial_run(&trial), 0);
}

/* ---- Transfers, wherever they lie --------------------------------------------------------------
 */

static int shift_bytes(
	struct rank_env *env, const struct buffers *b, size_t size, size_t in_at, size_t out_at)
{
	unsigned char *host = (unsigned char *)b->host;
	int rank = env->rank, ranks = env->size, before = (rank + ranks - 1) % ranks;
	char *in = (char *)b->in + in_at, *out = (char *)b->out + out_at;

	for (size_t i = 0; i < size + 2; i++)
		host[i] = (unsigned char)(i * 31 + i / 251 + (size_t)rank * 7);
	TRY(rondo_copy(in, host, size, NULL));
	memset(host, 0, size + 2);
	TRY(rondo_copy(out - 1, host, size + 2, NULL));
	rondo_group_start();
	rondo_recv(env->comm, out, size, RONDO_U8, before, b->stream);
	rondo_send(env->comm, in, size, RONDO_U8, (rank + 1) % ranks, b->stream);
	TRY(rondo_group_end());
	TRY(rondo_copy(host, out - 1, size + 2, b->stream));
	TRY(rondo_stream_synchronize(b->stream));
	for (size_t i = 0; i < size; i++)
		if (host[i + 1] != (unsigned char)(i * 31 + i / 251 + (size_t)before * 7))
			return world_report(env, "%zu bytes from %zu to %zu: byte %zu is %d", size,
				in_at, out_at, i, host[i + 1]);
	if (host[0] || host[size + 1])
		return world_report(env, "%zu bytes: more was written", size);
	return 0;
}

/* Sizes of no vector, of some, and of many for each thread of several blocks; alike and not. */
static int odd_transfers(struct rank_env *env)
{
	static const size_t sizes[] = { 0, 1, 15, 16, 4097, 4 * COUNT_MAX - 100,
		4 * COUNT_MAX * 3 + 5 };
	struct buffers b;
	int wrong = open_buffers(env, &b);

	for (int i = 0; i < 7 && !wrong; i++)
		for (size_t at = 0; at < 4 && !wrong; at++)
			wrong = shift_bytes(env, &b, sizes[i], at * 5, at * 5 + (at % 2 ? 1 : 16));
	close_buffers(&b);
	return wrong;
}

Test(gpu, transfers_arrive_wherever_they_lie, .timeout = 120)
{
	try_worlds(odd_transfers, 4);
}

/* ---- Types and operations, against the host's ---------------------------------------------- */

/* Their sum is beyond the range; of half of them the signs alternate between ranks. */
static void put_greatest(char *into, rondo_type type, size_t count, int rank)
{
	double greatest = element_limits(type).greatest;

	for (size_t i = 0; i < count; i += 3)
		element_store(into + i * rondo_type_size(type), type, 0,
			i % 2 && rank % 2 ? -greatest : greatest);
}

static int compare_with_host(
	struct rank_env *env, const struct buffers *b, rondo_type type, rondo_op op, size_t count)
{
	size_t size = rondo_type_size(type), bytes = count * size;
	char *host = (char *)b->host, *right = malloc(bytes), *got = malloc(bytes);
	int wrong = 0;

	for (size_t i = 0; i < count; i++)
		gpu_put_element(host + i * size, type, i, env->rank);
	if (op == RONDO_AVG && element_is_float(type))
		put_greatest(host, type, count, env->rank);
	if (rondo_all_reduce(env->comm, host, right, count, type, op, NULL) ||
		rondo_copy(b->in, host, bytes, b->stream) ||
		rondo_all_reduce(env->comm, b->in, b->out, count, type, op, b->stream) ||
		rondo_copy(got, b->out, bytes, b->stream) || rondo_stream_synchronize(b->stream))
		wrong = world_report(env, "%s", rondo_last_error());
	else if (memcmp(got, right, bytes) != 0)
		wrong = world_report(env, "%zu %s %s differ from the host's", count,
			rondo_type_name(type), rondo_op_name(op));
	free(right);
	free(got);
	return wrong;
}

/* Through LL buffers, and with barriers. */
static int compare_both(struct rank_env *env, const struct buffers *b, rondo_type type, rondo_op op)
{
	int wrong = compare_with_host(env, b, type, op, 1003);

	return wrong ? wrong : compare_with_host(env, b, type, op, COUNT_MAX / 2 + 1);
}

static int same_as_on_the_host(struct rank_env *env)
{
	struct buffers b;
	int wrong = open_buffers(env, &b);

	for (int type = 0; type < RONDO_TYPE_COUNT && !wrong; type++) {
		unsigned char factor[8] = { 0 };
		rondo_op weighed;

		for (int op = 0; op < RONDO_OP_COUNT && !wrong; op++)
			if (rondo_op_applies(op, type))
				wrong = compare_both(env, &b, type, op);
		if (wrong || type >= RONDO_BOOL)
			continue;
		/* Each rank its own; of floats, a power of two. */
		gpu_put_element(factor, type, (size_t)env->rank % 3 + 15, 0);
		if (rondo_op_create_premul(env->comm, &weighed, factor, type))
			wrong = world_report(env, "%s", rondo_last_error());
		if (!wrong)
			wrong = compare_both(env, &b, type, weighed);
	}
	close_buffers(&b);
	return wrong;
}

Test(gpu, all_types_and_operations_give_the_hosts_bits, .timeout = 120)
{
	try_worlds(same_as_on_the_host, 4);
}

/* ---- Graphs -------------------------------------------------------------------------------- */

static int replay(struct rank_env *env)
{
	enum { REPLAYS = 20 };
	int calls = calls_to_make(1000), device = env->rank % rondo_device_count();
	struct gpu_graphs cu;
	struct buffers b;
	void *stream, *graph, *exec;
	rondo_stream *wrapped;
	float ones[2] = { 1, 1 }, got[2], come[2];
	int wrong = open_buffers(env, &b), err = 0;

	if (wrong || !gpu_find_graphs(&cu))
		return wrong ? wrong : world_report(env, "the driver lacks graphs");
	if (gpu_open_stream(&cu, device, &stream, &wrapped) || rondo_copy(b.in, ones, 8, NULL) ||
		gpu_begin(&cu, stream))
		return world_report(env, "capturing: %s", rondo_last_error());
	for (int i = 0; i < calls && !err; i++)
		err = rondo_all_reduce(env->comm, b.in, b.out, 2, RONDO_F32, RONDO_SUM, wrapped);
	if (!err)
		err = shift(env,
			&(struct buffers){ .in = b.out, .out = b.in + 2, .stream = wrapped }, 2, 1);
	if (err || cu.end(stream, &graph) || cu.instantiate(&exec, graph, 0))
		return world_report(env, "captured: %s", rondo_last_error());
	for (int i = 0; i < REPLAYS && !err; i++)
		err = cu.launch(exec, stream) || cu.synchronize(stream);
	if (err || rondo_stream_synchronize(wrapped) || rondo_copy(got, b.out, 8, NULL) ||
		rondo_copy(come, b.in + 2, 8, NULL))
		wrong = world_report(env, "replayed: %s", rondo_last_error());
	else if (got[0] != (float)env->size || got[1] != got[0] || come[0] != got[0] ||
		 come[1] != got[0])
		wrong = world_report(
			env, "replayed: %g %g, came %g %g", got[0], got[1], come[0], come[1]);
	cu.destroy_exec(exec);
	cu.destroy_graph(graph);
	rondo_stream_destroy(wrapped);
	cu.destroy(stream);
	close_buffers(&b);
	return wrong;
}

Test(gpu, calls_are_captured_in_a_graph_and_replayed, .timeout = 120)
{
	if (!has_gpus(1))
		cr_skip_test(NO_GPU);

	struct gpu_trial trial = { "auto", { .size = 2, .threads = true }, replay };

	cr_expect_eq(gpu_trial_run(&trial), 0, "threads");
	/* Where processes take turns on a device, they cannot. */
	if (has_gpus(2)) {
		trial.world.threads = false;
		cr_expect_eq(gpu_trial_run(&trial), 0, "processes");
	}
}

static int call_nothing(struct rank_env *env)
{
	(void)env;
	return 0;
}

Test(gpu, ranks_that_share_too_few_queues_are_warned, .timeout = 60)
{
	struct gpu_trial trial = { "auto", { .size = 8, .threads = true }, call_nothing };
	const char *text;

	if (!has_gpus(1))
		cr_skip_test(NO_GPU);
	captured_stderr_begin();
	cr_expect_eq(gpu_trial_run(&trial), 0);
	setenv("CUDA_DEVICE_MAX_CONNECTIONS", "1", 1);
	cr_expect_eq(gpu_trial_run(&trial), 0);
	text = captured_stderr_end();
	/* Once a GPU, and by the second world alone. */
	cr_expect(strstr(text, "share CUDA device 0, where its streams have 1 queues"), "%s", text);
	cr_expect_null(strstr(text, "have 32 queues"), "%s", text);
}
