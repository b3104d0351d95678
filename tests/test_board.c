/* Calls on device memory, on pretend GPUs: every way of running them gives what the host's gives.
 */
#include <criterion/criterion.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "board.h"
#include "emulated.h"
#include "lane.h"
#include "messages.h"
#include "stream.h"
#include "word.h"
#include "world.h"

/* One way: threads or processes, RONDO_DEVICE, RONDO_KERNEL. */
struct way {
	const char *device, *kernel;
	bool threads;
	const char *transport;
	enum rd_kernel becomes;
};

static const struct way ways[] = {
	{ "emulated:1", "auto", true, NULL, RD_KERNEL_FUSED },
	{ "emulated:4", "auto", true, NULL, RD_KERNEL_FUSED },
	{ "emulated:1", "auto", false, NULL, RD_KERNEL_STEPPED },
	{ "emulated:4", "auto", false, NULL, RD_KERNEL_FUSED },
	{ "emulated:2", "stepped", true, NULL, RD_KERNEL_STEPPED },
	{ "emulated:2", "staged", false, NULL, RD_KERNEL_STAGED },
	{ "emulated:2,no-handles", "auto", false, NULL, RD_KERNEL_STAGED },
	{ "emulated:2", "auto", false, "tcp", RD_KERNEL_STAGED },
	{ "emulated:2", "auto", false, "mixed", RD_KERNEL_STAGED },
	{ "emulated:4", "messages", true, NULL, RD_KERNEL_MESSAGES },
	{ "emulated:4", "messages", false, "tcp", RD_KERNEL_MESSAGES },
};
#define WAYS (sizeof(ways) / sizeof(*ways))

static int go(const struct way *way, int size, int (*body)(struct citizen *), int timeout_ms)
{
	struct world world = { .size = size,
		.threads = way->threads,
		.transport = way->transport,
		.timeout_ms = timeout_ms };
	struct fate fates[WORLD_MAX];
	int failed = 0;

	setenv("RONDO_DEVICE", way->device, 1);
	setenv("RONDO_KERNEL", way->kernel, 1);
	world_run(&world, body, (void *)way, fates);
	/* Who is to die does so with 128 + SIGKILL. */
	for (int i = 0; i < size; i++)
		failed += fates[i].status != 0 && fates[i].status != 128 + SIGKILL;
	return failed;
}

/* Each way in a process of its own, for RONDO_DEVICE is read once. */
static int in_child(int (*run)(void *argument), void *argument)
{
	int status;
	pid_t pid = fork();

	if (pid == 0)
		_exit(run(argument));
	if (waitpid(pid, &status, 0) != pid)
		return -1;
	return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

struct trial {
	const struct way *way;
	int size;
	int (*body)(struct citizen *citizen);
	int timeout_ms; /* 0: the default */
};

static int run_trial(void *argument)
{
	const struct trial *trial = argument;

	return go(trial->way, trial->size, trial->body, trial->timeout_ms);
}

/* ---- Values -------------------------------------------------------------------------------- */

/* Small whole numbers: sums and products are exact in every type. */
static float value(int rank, size_t i)
{
	return (float)((i * 7 + (size_t)rank * 3) % 5 + 1);
}

static void fill_floats(float *at, int rank, size_t count)
{
	for (size_t i = 0; i < count; i++)
		at[i] = value(rank, i);
}

/* What element i of block `block` of this rank's output is to be. */
static float expected(enum rd_collective collective, rondo_op op, int rank, int size, int root,
	size_t count, size_t at)
{
	size_t block = at / count, i = at % count;
	float result;

	switch (collective) {
	case RD_BROADCAST:
		return value(root, i);
	case RD_ALL_GATHER:
	case RD_GATHER:
		return value((int)block, i);
	case RD_SCATTER:
		return value(root, (size_t)rank * count + i);
	case RD_ALL_TO_ALL:
		return value((int)block, (size_t)rank * count + i);
	case RD_REDUCE_SCATTER:
		i += (size_t)rank * count;
		break;
	default:
		break;
	}
	result = value(0, i);
	for (int k = 1; k < size; k++) {
		float other = value(k, i);

		if (op == RONDO_SUM || op == RONDO_AVG)
			result += other;
		else if (op == RONDO_PROD)
			result *= other;
		else if (op == RONDO_MIN)
			result = other < result ? other : result;
		else
			result = other > result ? other : result;
	}
	return op == RONDO_AVG ? result / (float)size : result;
}

static int call(rondo_comm *comm, enum rd_collective collective, rondo_op op, int root,
	const float *in, float *out, size_t count, rondo_stream *stream)
{
	switch (collective) {
	case RD_ALL_REDUCE:
		return rondo_all_reduce(comm, in, out, count, RONDO_F32, op, stream);
	case RD_REDUCE:
		return rondo_reduce(comm, in, out, count, RONDO_F32, op, root, stream);
	case RD_BROADCAST:
		return rondo_broadcast(comm, in, out, count, RONDO_F32, root, stream);
	case RD_REDUCE_SCATTER:
		return rondo_reduce_scatter(comm, in, out, count, RONDO_F32, op, stream);
	case RD_ALL_GATHER:
		return rondo_all_gather(comm, in, out, count, RONDO_F32, stream);
	case RD_GATHER:
		return rondo_gather(comm, in, out, count, RONDO_F32, root, stream);
	case RD_SCATTER:
		return rondo_scatter(comm, in, out, count, RONDO_F32, root, stream);
	case RD_ALL_TO_ALL:
		return rondo_all_to_all(comm, in, out, count, RONDO_F32, stream);
	default:
		return rondo_barrier(comm, stream);
	}
}

#define COUNT_MAX 3001

/* Buffers of a rank: device memory, with a guard behind the output. */
struct memory {
	float *in, *out;
	rondo_stream *stream;
};

static int open_room(struct citizen *citizen, struct memory *memory, size_t count)
{
	size_t bytes = (size_t)citizen->size * (count + 1) * sizeof(float);
	int device = citizen->rank % rondo_device_count();

	if (citizen->create_error)
		return world_say(citizen, "create: %s", rondo_last_error());
	if (rondo_mem_alloc_on((void **)&memory->in, bytes, device) ||
		rondo_mem_alloc_on((void **)&memory->out, bytes, device) ||
		rondo_stream_create_on(&memory->stream, device))
		return world_say(citizen, "memory: %s", rondo_last_error());
	return 0;
}

static int open_memory(struct citizen *citizen, struct memory *memory)
{
	return open_room(citizen, memory, COUNT_MAX);
}

static void close_memory(struct memory *memory)
{
	rondo_stream_destroy(memory->stream);
	rondo_mem_free(memory->in);
	rondo_mem_free(memory->out);
}

static struct rd_problem problem_of(
	const struct citizen *citizen, enum rd_collective collective, int root)
{
	return (struct rd_problem){ .collective = collective,
		.rank = citizen->rank,
		.size = citizen->size,
		.root = rd_collective_has_root(collective) ? root : 0 };
}

static int check_output(struct citizen *citizen, const struct memory *memory, const float *out,
	enum rd_collective collective, rondo_op op, int root, size_t count)
{
	struct rd_problem problem = problem_of(citizen, collective, root);
	size_t total = collective == RD_BARRIER ? 0 : (size_t)rd_out_blocks(&problem) * count;

	for (size_t i = 0; i < total; i++) {
		float wanted =
			expected(collective, op, citizen->rank, citizen->size, root, count, i);

		if (out[i] != wanted)
			return world_say(citizen, "%s of %zu, root %d: element %zu is %g, not %g",
				rd_collective_name(collective), count, root, i, out[i], wanted);
	}
	if (collective != RD_BARRIER && out == memory->out && out[total] != -1.0f)
		return world_say(citizen, "%s of %zu wrote behind its output",
			rd_collective_name(collective), count);
	return 0;
}

/* Whether the smaller buffer is at its block of the larger one. */
static float *out_in_place(const struct rd_problem *problem, float *in, size_t count)
{
	if (problem->collective == RD_REDUCE_SCATTER || problem->collective == RD_SCATTER)
		return in + (size_t)problem->rank * count;
	return in;
}

static int try_call(struct citizen *citizen, struct memory *memory, enum rd_collective collective,
	rondo_op op, size_t count, bool in_place, bool on_stream)
{
	int root = citizen->size - 1, err;
	struct rd_problem problem = problem_of(citizen, collective, root);
	float *in = memory->in, *out = in_place ? out_in_place(&problem, in, count) : memory->out;
	size_t ins = (size_t)rd_in_blocks(&problem) * count;

	if (in_place && (collective == RD_ALL_GATHER || collective == RD_GATHER)) {
		out = in;
		in += (size_t)citizen->rank * count;
	}
	for (size_t i = 0; i <= (size_t)citizen->size * count; i++)
		memory->out[i] = -1.0f;
	fill_floats(in, citizen->rank, ins);
	err = call(citizen->comm, collective, op, root, in, out, count,
		on_stream ? memory->stream : NULL);
	if (!err && on_stream)
		err = rondo_stream_synchronize(memory->stream);
	if (err)
		return world_say(
			citizen, "%s: %s", rd_collective_name(collective), rondo_last_error());
	return check_output(citizen, memory, out, collective, op, root, count);
}

static int all_collectives(struct citizen *citizen)
{
	static const size_t counts[] = { 1, 5, 64, COUNT_MAX, 0 };
	const struct way *way = citizen->argument;
	struct memory memory;
	int wrong = open_memory(citizen, &memory);

	if (wrong)
		return wrong;
	if (citizen->comm->board->kernel != way->becomes)
		return world_say(citizen, "runs by way %d", citizen->comm->board->kernel);
	for (int collective = 0; collective < RD_COLLECTIVE_COUNT && !wrong; collective++) {
		if (collective == RD_TRANSFER)
			continue;
		for (int i = 0; i < 5 && !wrong; i++)
			for (int variant = 0; variant < 4 && !wrong; variant++)
				wrong = try_call(citizen, &memory, collective, RONDO_SUM, counts[i],
					variant & 1, variant & 2);
	}
	for (int op = 0; op <= RONDO_AVG && !wrong; op++)
		wrong = try_call(citizen, &memory, RD_ALL_REDUCE, op, 1000, false, true);
	close_memory(&memory);
	return wrong;
}

Test(board, all_collectives_are_right_by_every_way, .timeout = 240)
{
	for (size_t i = 0; i < WAYS; i++) {
		struct trial trial = { &ways[i], 4, all_collectives, 0 };

		cr_expect_eq(in_child(run_trial, &trial), 0, "%s %s %s %s", ways[i].device,
			ways[i].kernel, ways[i].threads ? "threads" : "processes",
			ways[i].transport ? ways[i].transport : "");
	}
}

/* ---- Messages ------------------------------------------------------------------------------ */

struct named {
	const char *algo;
	struct trial trial;
};

static int run_named(void *argument)
{
	struct named *named = argument;

	setenv("RONDO_ALGO", named->algo, 1);
	return run_trial(&named->trial);
}

Test(board, every_algorithm_of_messages_is_right_on_devices, .timeout = 240)
{
	static const char *const algorithms[] = { "ring", "tree", "binomial", "doubling", "halving",
		"pat", "chain", "leaders", "hierarchical", "direct" };

	for (size_t i = 0; i < sizeof(algorithms) / sizeof(*algorithms); i++)
		for (int threads = 0; threads < 2; threads++) {
			struct way way = { "emulated:5", "auto", threads, NULL,
				RD_KERNEL_MESSAGES };
			struct named named = { algorithms[i], { &way, 5, all_collectives, 0 } };

			cr_expect_eq(in_child(run_named, &named), 0, "%s, %s", algorithms[i],
				threads ? "threads" : "processes");
		}
}

/* Pieces by the hundred: every slot is used again and again. */
static int long_calls(struct citizen *citizen)
{
	const size_t count = 3000001;
	struct memory memory = { NULL, NULL, NULL };
	int device = citizen->rank % rondo_device_count(), wrong = 0;

	if (citizen->create_error || rondo_mem_alloc_on((void **)&memory.in, count * 4, device) ||
		rondo_mem_alloc_on((void **)&memory.out, count * 4, device))
		return world_say(citizen, "%s", rondo_last_error());
	fill_floats(memory.in, citizen->rank, count);
	for (int call = 0; call < 2 && !wrong; call++) {
		if (rondo_all_reduce(citizen->comm, memory.in, memory.out, count, RONDO_F32,
			    RONDO_SUM, NULL))
			wrong = world_say(citizen, "%s", rondo_last_error());
		for (size_t i = 0; i < count && !wrong; i++)
			if (memory.out[i] !=
				expected(RD_ALL_REDUCE, RONDO_SUM, 0, citizen->size, 0, count, i))
				wrong = world_say(citizen, "element %zu is %g", i, memory.out[i]);
	}
	close_memory(&memory);
	return wrong;
}

Test(board, long_messages_go_in_many_pieces, .timeout = 120)
{
	for (int threads = 0; threads < 2; threads++) {
		struct way way = { "emulated:3", "messages", threads, NULL, RD_KERNEL_MESSAGES };
		struct trial trial = { &way, 3, long_calls, 0 };

		cr_expect_eq(
			in_child(run_trial, &trial), 0, "%s", threads ? "threads" : "processes");
	}
}

/* On the pretend driver, which is told of the machine by PRETEND_TOPOLOGY, this is run as well. */
static const char *neighbours(void)
{
	return getenv("PRETEND_TOPOLOGY") ? "cuda"
					  : "emulated:" RONDO_TOPOLOGIES "/neighbours.json";
}

static int expect_plan(
	struct citizen *citizen, enum rd_collective collective, int root, bool expected_there)
{
	struct rd_problem problem = problem_of(citizen, collective, root);
	bool found;

	if (rd_messages_prepare(citizen->comm->board->messages, &problem, false, &found))
		return world_say(citizen, "%s", rondo_last_error());
	if (found == expected_there)
		return 0;
	return world_say(citizen, "%s %s", rd_collective_name(collective),
		found ? "has a plan" : "has no plan");
}

/* GPUs in a ring: all of them, or one too few to close it. What cannot go from neighbour to
   neighbour goes through host memory, and all is right. */
static int among_neighbours(struct citizen *citizen)
{
	int wrong = all_collectives(citizen), size = citizen->size;

	if (!wrong)
		wrong = expect_plan(citizen, RD_ALL_REDUCE, 0, size == 8);
	if (!wrong)
		wrong = expect_plan(citizen, RD_ALL_GATHER, 0, size == 8);
	if (!wrong)
		wrong = expect_plan(citizen, RD_BROADCAST, size - 1, size == 8);
	if (!wrong)
		wrong = expect_plan(citizen, RD_ALL_TO_ALL, 0, false);
	return wrong;
}

Test(board, messages_go_where_only_neighbours_reach_each_other, .timeout = 240)
{
	for (int size = 7; size <= 8; size++)
		for (int threads = 0; threads < 2; threads++) {
			struct way way = { neighbours(), "auto", threads, NULL,
				RD_KERNEL_MESSAGES };
			struct trial trial = { &way, size, among_neighbours, 0 };

			cr_expect_eq(in_child(run_trial, &trial), 0, "%d %s", size,
				threads ? "threads" : "processes");
		}
}

/* Four of them have one pair alone. */
Test(board, ranks_that_reach_nobody_have_all_staged, .timeout = 60)
{
	struct way way = { neighbours(), "auto", false, NULL, RD_KERNEL_STAGED };
	struct trial trial = { &way, 4, all_collectives, 0 };

	cr_expect_eq(in_child(run_trial, &trial), 0);
}

/* A name decides only where there is a choice. */
Test(board, a_named_algorithm_changes_nothing_where_processes_take_turns, .timeout = 60)
{
	struct way way = { "emulated:1", "auto", false, NULL, RD_KERNEL_STEPPED };
	struct named named = { "ring", { &way, 3, all_collectives, 0 } };

	cr_expect_eq(in_child(run_named, &named), 0);
}

Test(board, two_and_three_ranks_are_right_too, .timeout = 120)
{
	for (size_t i = 0; i < 5; i++)
		for (int size = 1; size <= 3; size++) {
			struct way way = ways[i];
			struct trial trial = { &way, size, all_collectives, 0 };

			if (size == 1)
				way.becomes = RD_KERNEL_STAGED;
			cr_expect_eq(in_child(run_trial, &trial), 0, "%d ranks, way %zu", size, i);
		}
}

static void try_ways(
	int size, int (*body)(struct citizen *citizen), int timeout_ms, bool threads_too)
{
	for (size_t i = 0; i < WAYS; i++) {
		struct trial trial = { &ways[i], size, body, timeout_ms };

		if (ways[i].threads && !threads_too)
			continue;
		cr_expect_eq(in_child(run_trial, &trial), 0, "%s %s %s %s", ways[i].device,
			ways[i].kernel, ways[i].threads ? "threads" : "processes",
			ways[i].transport ? ways[i].transport : "");
	}
}

/* ---- Streams ------------------------------------------------------------------------------- */

static int expect_floats(struct citizen *citizen, const float *at, size_t count, float wanted)
{
	for (size_t i = 0; i < count; i++)
		if (at[i] != wanted)
			return world_say(citizen, "element %zu is %g, not %g", i, at[i], wanted);
	return 0;
}

/* The stream is shut when the calls are made, which return at once; what is queued before comes
   before, and what is queued after comes after. */
static int in_the_streams_order(struct citizen *citizen)
{
	static _Thread_local uint32_t gate;
	float ones[1000], back[1000] = { 0 }, sums[1000] = { 0 };
	struct memory memory;
	int wrong = open_memory(citizen, &memory);

	if (wrong)
		return wrong;

	struct rd_lane *lane = rd_stream_lane(memory.stream);

	for (int i = 0; i < 1000; i++)
		ones[i] = 1;
	if (lane->ops->wait_word(lane->device, lane->stream, &gate, 1) ||
		rondo_copy(memory.in, ones, sizeof(ones), memory.stream) ||
		rondo_all_reduce(citizen->comm, memory.in, memory.out, 1000, RONDO_F32, RONDO_SUM,
			memory.stream) ||
		rondo_copy(sums, memory.out, sizeof(sums), memory.stream) ||
		rondo_all_reduce(citizen->comm, memory.out, memory.out, 1000, RONDO_F32, RONDO_SUM,
			memory.stream) ||
		rondo_copy(back, memory.out, sizeof(back), memory.stream))
		return world_say(citizen, "%s", rondo_last_error());
	wrong = expect_floats(citizen, memory.out, 1000, 0);
	rd_word_write(&gate, 1);
	if (rondo_stream_synchronize(memory.stream))
		return world_say(citizen, "%s", rondo_last_error());
	if (!wrong)
		wrong = expect_floats(citizen, sums, 1000, (float)citizen->size);
	if (!wrong)
		wrong = expect_floats(citizen, back, 1000, (float)(citizen->size * citizen->size));
	close_memory(&memory);
	return wrong;
}

Test(board, calls_return_at_once_and_run_in_the_streams_order, .timeout = 120)
{
	try_ways(3, in_the_streams_order, 0, true);
}

/* Calls of one comm on two streams in turn, many of them under way. */
static int on_two_streams(struct citizen *citizen)
{
	enum { CALLS = 100, COUNT = 33 };
	struct memory memory;
	rondo_stream *other;
	int wrong = open_memory(citizen, &memory);

	if (wrong)
		return wrong;
	if (rondo_stream_create_on(&other, citizen->rank % rondo_device_count()))
		return world_say(citizen, "%s", rondo_last_error());
	for (int i = 0; i < CALLS * COUNT; i++)
		memory.in[i] = (float)(i % 7 + citizen->rank);
	for (int i = 0; i < CALLS && !wrong; i++) {
		size_t at = (size_t)i * COUNT;

		if (rondo_all_reduce(citizen->comm, memory.in + at, memory.out + at, COUNT,
			    RONDO_F32, RONDO_SUM, i % 3 ? memory.stream : other))
			wrong = world_say(citizen, "%s", rondo_last_error());
	}
	if (rondo_stream_synchronize(memory.stream) || rondo_stream_synchronize(other))
		wrong = world_say(citizen, "%s", rondo_last_error());
	for (int i = 0; i < CALLS * COUNT && !wrong; i++)
		if (memory.out[i] != (float)(4 * (i % 7) + 6))
			wrong = world_say(citizen, "element %d is %g", i, memory.out[i]);
	rondo_stream_destroy(other);
	close_memory(&memory);
	return wrong;
}

Test(board, calls_on_several_streams_are_right, .timeout = 120)
{
	cr_assert_leq(100 * 33, COUNT_MAX * 2);
	try_ways(4, on_two_streams, 0, true);
}

/* Buffers come and go, mostly at the same address: what a peer has mapped of them must follow. */
static int with_buffers_that_change(struct citizen *citizen)
{
	struct memory memory;
	int wrong = open_memory(citizen, &memory), device = citizen->rank % rondo_device_count();

	for (int i = 0; i < 100 && !wrong; i++) {
		float *buffer;

		if (rondo_mem_alloc_on((void **)&buffer, 4096, device))
			return world_say(citizen, "%s", rondo_last_error());
		for (int k = 0; k < 1000; k++)
			buffer[k] = (float)(i + citizen->rank);
		if (rondo_all_reduce(
			    citizen->comm, buffer, buffer, 1000, RONDO_F32, RONDO_MAX, NULL))
			wrong = world_say(citizen, "%s", rondo_last_error());
		if (!wrong)
			wrong = expect_floats(
				citizen, buffer, 1000, (float)(i + citizen->size - 1));
		rondo_mem_free(buffer);
	}
	close_memory(&memory);
	return wrong;
}

Test(board, buffers_may_come_and_go, .timeout = 120)
{
	try_ways(3, with_buffers_that_change, 0, true);
}

static int exchange_in_a_ring(struct citizen *citizen)
{
	int next = (citizen->rank + 1) % citizen->size;
	int before = (citizen->rank + citizen->size - 1) % citizen->size, err;
	struct memory memory;
	int wrong = open_memory(citizen, &memory);

	if (wrong)
		return wrong;
	fill_floats(memory.in, citizen->rank, 1000);
	rondo_group_start();
	rondo_send(citizen->comm, memory.in, 1000, RONDO_F32, next, memory.stream);
	rondo_recv(citizen->comm, memory.out, 1000, RONDO_F32, before, memory.stream);
	rondo_all_reduce(citizen->comm, memory.in + 1000, memory.in + 1000, 1000, RONDO_F32,
		RONDO_SUM, memory.stream);
	err = rondo_group_end();
	if (!err)
		err = rondo_stream_synchronize(memory.stream);
	if (err)
		wrong = world_say(citizen, "%s", rondo_last_error());
	for (size_t i = 0; i < 1000 && !wrong; i++)
		if (memory.out[i] != value(before, i))
			wrong = world_say(citizen, "element %zu is %g", i, memory.out[i]);
	close_memory(&memory);
	return wrong;
}

Test(board, groups_send_and_receive_device_memory, .timeout = 120)
{
	try_ways(3, exchange_in_a_ring, 0, true);
}

/* ---- Parts --------------------------------------------------------------------------------- */

/* As floats, several parts of what is staged, whatever the collective, and not a whole number. */
#define LONG_COUNT 300003

static const struct way staged_ways[] = {
	{ "emulated:2", "staged", false, NULL, RD_KERNEL_STAGED },
	{ "emulated:2", "staged", true, NULL, RD_KERNEL_STAGED },
	{ "emulated:2", "auto", false, "tcp", RD_KERNEL_STAGED },
};

static void try_staged(int size, int (*body)(struct citizen *citizen), int timeout_ms)
{
	for (size_t i = 0; i < sizeof(staged_ways) / sizeof(*staged_ways); i++) {
		struct trial trial = { &staged_ways[i], size, body, timeout_ms };

		cr_expect_eq(in_child(run_trial, &trial), 0, "staged, way %zu", i);
	}
}

static int long_collectives(struct citizen *citizen)
{
	struct memory memory;
	int wrong = open_room(citizen, &memory, LONG_COUNT);

	if (wrong)
		return wrong;
	for (int collective = 0; collective < RD_COLLECTIVE_COUNT && !wrong; collective++)
		for (int in_place = 0; in_place < 2 && !wrong && collective != RD_TRANSFER;
			in_place++)
			wrong = try_call(citizen, &memory, collective, RONDO_MAX, LONG_COUNT,
				in_place, true);
	/* In a part there is a cache line's worth of elements, whatever their size. */
	if (!wrong && rondo_all_reduce(citizen->comm, memory.in, memory.out, LONG_COUNT * 4,
			      RONDO_U8, RONDO_BOR, memory.stream))
		wrong = world_say(citizen, "%s", rondo_last_error());
	close_memory(&memory);
	return wrong;
}

Test(board, what_is_staged_in_parts_is_right, .timeout = 120)
{
	try_staged(3, long_collectives, 0);
}

/* Bytes that are mapped here of memory that ranks share. */
static size_t shared_bytes(void)
{
	FILE *maps = fopen("/proc/self/maps", "r");
	unsigned long long from, to;
	size_t bytes = 0;
	char line[512];

	while (maps && fgets(line, sizeof(line), maps))
		if (strstr(line, "/memfd:rondo (deleted)") &&
			sscanf(line, "%llx-%llx", &from, &to) == 2)
			bytes += to - from;
	if (maps)
		fclose(maps);
	return bytes;
}

static int with_little_memory(struct citizen *citizen)
{
	enum { COUNT = 8 << 20 };
	struct memory memory;
	size_t before = shared_bytes();
	int wrong = open_room(citizen, &memory, COUNT);

	for (int i = 0; i < 2 && !wrong; i++)
		if (rondo_all_reduce(citizen->comm, memory.in, memory.out, COUNT, RONDO_F32,
			    RONDO_SUM, NULL))
			wrong = world_say(citizen, "%s", rondo_last_error());
	/* What is staged, here and at the peer. */
	if (!wrong && (shared_bytes() == before || shared_bytes() > before + (8 << 20)))
		wrong = world_say(citizen, "%zu bytes to stage", shared_bytes() - before);
	close_memory(&memory);
	return wrong;
}

Test(board, what_is_staged_needs_no_memory_of_its_size, .timeout = 60)
{
	struct trial trial = { &staged_ways[0], 2, with_little_memory, 0 };

	cr_expect_eq(in_child(run_trial, &trial), 0);
}

/*
 * Rank 1 wants all of rank 2's message before any of rank 0's, which rank 0 sends in one group with
 * one to rank 2: no transfer may wait for another's parts.
 */
static int criss_cross(struct citizen *citizen)
{
	size_t count = LONG_COUNT;
	rondo_comm *comm = citizen->comm;
	struct memory memory;
	int wrong = open_room(citizen, &memory, count), err;

	if (wrong)
		return wrong;
	fill_floats(memory.in, citizen->rank, 2 * count);
	rondo_group_start();
	if (citizen->rank == 0) {
		rondo_send(comm, memory.in, count, RONDO_F32, 1, memory.stream);
		rondo_send(comm, memory.in + count, count, RONDO_F32, 2, memory.stream);
	} else if (citizen->rank == 2) {
		rondo_recv(comm, memory.out, count, RONDO_F32, 0, memory.stream);
		rondo_send(comm, memory.in, count, RONDO_F32, 1, memory.stream);
	} else {
		rondo_recv(comm, memory.out, count, RONDO_F32, 2, memory.stream);
		rondo_group_end();
		rondo_group_start();
		rondo_recv(comm, memory.out + count, count, RONDO_F32, 0, memory.stream);
	}
	err = rondo_group_end();
	if (!err)
		err = rondo_stream_synchronize(memory.stream);
	if (err)
		wrong = world_say(citizen, "%s", rondo_last_error());
	for (size_t i = 0; i < count && !wrong && citizen->rank > 0; i++)
		if (memory.out[i] != (citizen->rank == 1 ? value(2, i) : value(0, count + i)))
			wrong = world_say(citizen, "element %zu is %g", i, memory.out[i]);
	for (size_t i = 0; i < count && !wrong && citizen->rank == 1; i++)
		if (memory.out[count + i] != value(0, i))
			wrong = world_say(citizen, "element %zu from 0 is %g", i, memory.out[i]);
	close_memory(&memory);
	return wrong;
}

Test(board, transfers_in_parts_do_not_wait_for_each_other, .timeout = 120)
{
	try_staged(3, criss_cross, 5000);
}

/* ---- Failures ------------------------------------------------------------------------------ */

static int one_call(struct citizen *citizen, struct memory *memory, size_t count)
{
	int err = rondo_all_reduce(citizen->comm, memory->in, memory->out, count, RONDO_F32,
		RONDO_SUM, memory->stream);

	return err ? err : rondo_stream_synchronize(memory->stream);
}

static int expect_error(struct citizen *citizen, int err, int wanted)
{
	if (err == wanted)
		return 0;
	return world_say(citizen, "%s, not %s: %s", rondo_error_name(err), rondo_error_name(wanted),
		err ? rondo_last_error() : "");
}

/* Rank 1 makes one call and then does something else; the news of that may come to others when they
   are still in the first call. */
static int call_until_it_fails(struct citizen *citizen, struct memory *memory)
{
	int err = one_call(citizen, memory, 1000);

	if (err == 0 && citizen->rank != 1)
		err = one_call(citizen, memory, 1000);
	return err;
}

static int when_a_peer_dies(struct citizen *citizen)
{
	struct memory memory;
	int wrong = open_memory(citizen, &memory);

	if (wrong)
		return wrong;
	int err = call_until_it_fails(citizen, &memory);

	if (citizen->rank == 1)
		raise(SIGKILL);
	wrong = expect_error(citizen, err, RONDO_DIED);
	/* Later calls are refused, or end at once. */
	if (!wrong)
		wrong = expect_error(citizen, one_call(citizen, &memory, 1000), RONDO_DIED);
	close_memory(&memory);
	return wrong;
}

Test(board, the_death_of_a_peer_frees_the_streams_that_wait_for_it, .timeout = 120)
{
	try_ways(3, when_a_peer_dies, 0, false);
}

static int when_one_aborts(struct citizen *citizen)
{
	struct memory memory;
	int wrong = open_memory(citizen, &memory);

	if (wrong)
		return wrong;
	int err = call_until_it_fails(citizen, &memory);

	if (citizen->rank == 1)
		rondo_comm_abort(citizen->comm, "enough");
	wrong = expect_error(citizen, err, citizen->rank == 1 ? 0 : RONDO_ABORTED);
	close_memory(&memory);
	return wrong;
}

Test(board, an_abort_frees_the_streams_that_wait, .timeout = 120)
{
	try_ways(3, when_one_aborts, 0, true);
}

/* Rank 1 makes no second call; it waits, bounded, for the comm to end. */
static int when_one_is_silent(struct citizen *citizen)
{
	struct memory memory;
	int wrong = open_memory(citizen, &memory), err;

	if (wrong)
		return wrong;
	err = call_until_it_fails(citizen, &memory);
	if (citizen->rank == 1)
		for (int i = 0; i < 20000 && err == 0; i++) {
			usleep(1000);
			err = rondo_comm_error(citizen->comm);
		}
	wrong = expect_error(citizen, err, RONDO_TIMEOUT);
	close_memory(&memory);
	return wrong;
}

Test(board, silence_has_a_bound, .timeout = 120)
{
	try_ways(3, when_one_is_silent, 1000, true);
}

static int when_calls_differ(struct citizen *citizen)
{
	struct memory memory;
	int wrong = open_memory(citizen, &memory), err;

	if (wrong)
		return wrong;
	/* The news may come to who is still in the barrier; but not to who is still being made. */
	err = rondo_barrier(citizen->comm, NULL);
	if (!err)
		err = one_call(citizen, &memory, citizen->rank == 1 ? 999 : 1000);
	wrong = expect_error(citizen, err, RONDO_MISMATCH);
	close_memory(&memory);
	return wrong;
}

Test(board, different_calls_are_a_mismatch_on_every_rank, .timeout = 120)
{
	try_ways(3, when_calls_differ, 0, true);
}

/* All parts of the shorter call are like the other's first, whatever two's power they are long. */
static int when_long_calls_differ(struct citizen *citizen)
{
	struct memory memory;
	size_t count = 4 << 20;
	int wrong = open_room(citizen, &memory, count), err;

	if (wrong)
		return wrong;
	err = rondo_barrier(citizen->comm, NULL);
	if (!err)
		err = one_call(citizen, &memory, citizen->rank == 1 ? count / 2 : count);
	wrong = expect_error(citizen, err, RONDO_MISMATCH);
	close_memory(&memory);
	return wrong;
}

Test(board, different_calls_in_parts_are_a_mismatch_too, .timeout = 60)
{
	try_staged(3, when_long_calls_differ, 0);
}

/* The same, after a call that all made alike, and whose parts are as long. */
static int when_long_calls_come_to_differ(struct citizen *citizen)
{
	struct memory memory;
	size_t count = 4 << 20;
	int wrong = open_room(citizen, &memory, count), err;

	if (wrong)
		return wrong;
	err = one_call(citizen, &memory, count);
	if (!err)
		err = one_call(citizen, &memory, citizen->rank == 1 ? count / 2 : count);
	wrong = expect_error(citizen, err, RONDO_MISMATCH);
	close_memory(&memory);
	return wrong;
}

Test(board, calls_in_parts_that_come_to_differ_are_a_mismatch_as_well, .timeout = 60)
{
	try_staged(3, when_long_calls_come_to_differ, 0);
}

/* ---- Operations ---------------------------------------------------------------------------- */

static void subtract(
	void *into, const void *a, const void *b, size_t count, rondo_type type, void *argument)
{
	(void)type;
	(void)argument;
	for (size_t i = 0; i < count; i++)
		((float *)into)[i] = ((const float *)a)[i] - ((const float *)b)[i];
}

static int one_own_call(struct citizen *citizen, struct memory *memory, rondo_op op, size_t count,
	const float factors[3])
{
	fill_floats(memory->in, citizen->rank, count);
	if (rondo_all_reduce(
		    citizen->comm, memory->in, memory->out, count, RONDO_F32, op, memory->stream) ||
		rondo_stream_synchronize(memory->stream))
		return world_say(citizen, "%s", rondo_last_error());
	for (size_t i = 0; i < count; i++) {
		float wanted = factors[0] * value(0, i) + factors[1] * value(1, i) +
			       factors[2] * value(2, i);

		if (memory->out[i] != wanted)
			return world_say(citizen, "element %zu of %zu is %g, not %g", i, count,
				memory->out[i], wanted);
	}
	return 0;
}

/* The user's own function runs on the host; a factor on the device. */
static int own_operations(struct citizen *citizen)
{
	static const float weights[3] = { 2, 3, 5 }, signs[3] = { 1, -1, -1 };
	struct memory memory;
	rondo_op weighed, own;
	int wrong = open_memory(citizen, &memory);

	if (wrong)
		return wrong;
	if (rondo_op_create_premul(citizen->comm, &weighed, &weights[citizen->rank], RONDO_F32) ||
		rondo_op_create(citizen->comm, &own, subtract, 0, NULL))
		return world_say(citizen, "%s", rondo_last_error());
	for (int big = 0; big < 2 && !wrong; big++) {
		size_t count = big ? 2 * COUNT_MAX : 5;

		wrong = one_own_call(citizen, &memory, weighed, count, weights);
		if (!wrong)
			wrong = one_own_call(citizen, &memory, own, count, signs);
	}
	close_memory(&memory);
	return wrong;
}

Test(board, factors_and_functions_of_the_programs_own_are_applied, .timeout = 120)
{
	try_ways(3, own_operations, 0, true);
}

/* Three numbers that belong together: no part may end within them. */
static void turn_and_add(
	void *into, const void *a, const void *b, size_t count, rondo_type type, void *argument)
{
	(void)type;
	(void)argument;
	for (size_t i = 0; i < count; i++) {
		const float *x = (const float *)a + 3 * i, *y = (const float *)b + 3 * i;
		float turned[3] = { x[0] + y[0], x[1] + y[1], x[2] + y[2] + y[0] };

		memcpy((float *)into + 3 * i, turned, sizeof(turned));
	}
}

static int long_own_operations(struct citizen *citizen)
{
	size_t count = LONG_COUNT, ours = (size_t)citizen->rank * count;
	float weight = (float)citizen->rank + 2;
	struct memory memory;
	rondo_op weighed, own;
	int wrong = open_room(citizen, &memory, count);

	if (wrong)
		return wrong;
	fill_floats(memory.in, citizen->rank, 3 * count);
	if (rondo_op_create_premul(citizen->comm, &weighed, &weight, RONDO_F32) ||
		rondo_op_create(citizen->comm, &own, turn_and_add, 12, NULL) ||
		rondo_reduce_scatter(citizen->comm, memory.in, memory.out, count, RONDO_F32,
			weighed, memory.stream) ||
		rondo_all_reduce(citizen->comm, memory.in, memory.out + count, count * 4, RONDO_U8,
			own, memory.stream) ||
		rondo_stream_synchronize(memory.stream))
		wrong = world_say(citizen, "%s", rondo_last_error());
	for (size_t i = 0; i < count && !wrong; i++) {
		float first = i % 3 == 2 ? value(1, i - 2) + value(2, i - 2) : 0;
		float sum = value(0, i) + value(1, i) + value(2, i) + first;

		if (memory.out[i] !=
			2 * value(0, ours + i) + 3 * value(1, ours + i) + 4 * value(2, ours + i))
			wrong = world_say(citizen, "weighed: element %zu is %g", i, memory.out[i]);
		else if (memory.out[count + i] != sum)
			wrong = world_say(citizen, "turned: element %zu is %g, not %g", i,
				memory.out[count + i], sum);
	}
	close_memory(&memory);
	return wrong;
}

Test(board, operations_of_the_programs_own_are_staged_in_parts, .timeout = 120)
{
	try_staged(3, long_own_operations, 0);
}

/* ---- Blocks of different lengths ----------------------------------------------------------- */

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

/* What rank `from` has for rank `to` is value(10 * from + to). */
static int check_blocks(struct citizen *citizen, const struct memory *memory, const char *name,
	const struct layout *layout, int rank_or_all)
{
	const float *out = memory->out;

	for (size_t at = 0; at < layout->total; at++) {
		float wanted = -1.0f;

		for (int k = 0; k < RANKS; k++)
			if (at >= layout->displs[k] && at - layout->displs[k] < layout->counts[k])
				wanted = value(10 * k + rank_or_all, at - layout->displs[k]);
		if (out[at] != wanted)
			return world_say(citizen, "%s: element %zu is %g, not %g", name, at,
				out[at], wanted);
	}
	return 0;
}

static void refill(struct memory *memory)
{
	for (size_t i = 0; i < RANKS * COUNT_MAX; i++)
		memory->out[i] = -1.0f;
}

static int done(struct citizen *citizen, struct memory *memory, int err)
{
	if (!err)
		err = rondo_stream_synchronize(memory->stream);
	return err ? world_say(citizen, "%s", rondo_last_error()) : 0;
}

static int try_all_to_all_v(struct citizen *citizen, struct memory *memory, bool gaps)
{
	struct layout in, out;
	int rank = citizen->rank, wrong;

	for (int k = 0; k < RANKS; k++) {
		in.counts[k] = length(rank, k);
		out.counts[k] = length(k, rank);
	}
	lay_out(&in, gaps);
	lay_out(&out, gaps);
	for (int k = 0; k < RANKS; k++)
		fill_floats(memory->in + in.displs[k], 10 * rank + k, in.counts[k]);
	refill(memory);
	wrong = done(citizen, memory,
		rondo_all_to_all_v(citizen->comm, memory->in, in.counts, in.displs, memory->out,
			out.counts, out.displs, RONDO_F32, memory->stream));
	return wrong ? wrong : check_blocks(citizen, memory, "all_to_all_v", &out, rank);
}

/* In place, where all pairs have as much for each other. */
static int try_in_place(struct citizen *citizen, struct memory *memory)
{
	struct layout both;
	int rank = citizen->rank, wrong;

	for (int k = 0; k < RANKS; k++)
		both.counts[k] = (size_t)(rank + k) * 301;
	lay_out(&both, true);
	refill(memory);
	for (int k = 0; k < RANKS; k++)
		fill_floats(memory->out + both.displs[k], 10 * rank + k, both.counts[k]);
	wrong = done(citizen, memory,
		rondo_all_to_all_v(citizen->comm, memory->out, both.counts, both.displs,
			memory->out, both.counts, both.displs, RONDO_F32, memory->stream));
	return wrong ? wrong : check_blocks(citizen, memory, "in place", &both, rank);
}

static int try_gathers(struct citizen *citizen, struct memory *memory, bool gaps)
{
	struct layout out;
	int rank = citizen->rank, wrong;

	for (int k = 0; k < RANKS; k++)
		out.counts[k] = length(k, 1);
	lay_out(&out, gaps);
	fill_floats(memory->in, 10 * rank, out.counts[rank]);
	refill(memory);
	wrong = done(citizen, memory,
		rondo_all_gather_v(citizen->comm, memory->in, memory->out, out.counts, out.displs,
			RONDO_F32, memory->stream));
	if (!wrong)
		wrong = check_blocks(citizen, memory, "all_gather_v", &out, 0);
	refill(memory);
	if (!wrong)
		wrong = done(citizen, memory,
			rondo_gather_v(citizen->comm, memory->in, out.counts[rank], memory->out,
				out.counts, out.displs, RONDO_F32, 2, memory->stream));
	if (!wrong && rank == 2)
		wrong = check_blocks(citizen, memory, "gather_v", &out, 0);
	return wrong;
}

static int try_scatters(struct citizen *citizen, struct memory *memory, bool gaps)
{
	struct layout in;
	int rank = citizen->rank, wrong;

	for (int k = 0; k < RANKS; k++)
		in.counts[k] = length(1, k);
	lay_out(&in, gaps);
	for (int k = 0; k < RANKS; k++)
		fill_floats(memory->in + in.displs[k], 10 + k, in.counts[k]);
	refill(memory);
	wrong = done(citizen, memory,
		rondo_scatter_v(citizen->comm, memory->in, in.counts, in.displs, memory->out,
			in.counts[rank], RONDO_F32, 1, memory->stream));
	for (size_t i = 0; i < in.counts[rank] && !wrong; i++)
		if (memory->out[i] != value(10 + rank, i))
			wrong = world_say(citizen, "scatter_v: %zu is %g", i, memory->out[i]);
	if (wrong || gaps)
		return wrong;
	wrong = done(citizen, memory,
		rondo_reduce_scatter_v(citizen->comm, memory->in, memory->out, in.counts, RONDO_F32,
			RONDO_SUM, memory->stream));
	for (size_t i = 0; i < in.counts[rank] && !wrong; i++)
		if (memory->out[i] != RANKS * value(10 + rank, i))
			wrong = world_say(
				citizen, "reduce_scatter_v: %zu is %g", i, memory->out[i]);
	return wrong;
}

static int varied_blocks(struct citizen *citizen)
{
	struct memory memory;
	int wrong = open_memory(citizen, &memory);

	for (int gaps = 0; gaps < 2 && !wrong; gaps++) {
		wrong = try_all_to_all_v(citizen, &memory, gaps);
		if (!wrong)
			wrong = try_gathers(citizen, &memory, gaps);
		if (!wrong)
			wrong = try_scatters(citizen, &memory, gaps);
	}
	if (!wrong)
		wrong = try_in_place(citizen, &memory);
	close_memory(&memory);
	return wrong;
}

Test(board, blocks_of_different_lengths_are_right_by_every_way, .timeout = 120)
{
	try_ways(RANKS, varied_blocks, 0, true);
}

/* Rank 1 believes that rank 0 has more for it than it has. */
static int lengths_that_differ(struct citizen *citizen)
{
	size_t sends[2] = { 8, 8 }, recvs[2] = { citizen->rank == 1 ? 9 : 8, 8 };
	struct memory memory;
	int wrong = open_memory(citizen, &memory), err;

	if (wrong)
		return wrong;
	err = rondo_barrier(citizen->comm, NULL);
	if (!err)
		err = rondo_all_to_all_v(citizen->comm, memory.in, sends, NULL, memory.out, recvs,
			NULL, RONDO_F32, memory.stream);
	if (!err)
		err = rondo_stream_synchronize(memory.stream);
	/* Through host memory, rank 0's part is done before it is seen. */
	if (!err)
		err = rondo_barrier(citizen->comm, NULL);
	wrong = expect_error(citizen, err, RONDO_MISMATCH);
	close_memory(&memory);
	return wrong;
}

Test(board, lengths_that_two_ranks_disagree_about_are_a_mismatch, .timeout = 120)
{
	try_ways(2, lengths_that_differ, 0, true);
}

/* Nothing but the program's own functions goes through host memory where all reach all. (What
   messages do is said above.) */
static int only_functions_are_staged(struct citizen *citizen)
{
	const struct way *way = citizen->argument;
	struct rd_work work;
	struct rd_terms function = { .has_op = true, .op = { .combine = subtract } };

	if (citizen->create_error)
		return world_say(citizen, "create: %s", rondo_last_error());
	for (int collective = 0; collective < RD_TRANSFER; collective++) {
		struct rd_call asked = { .problem = problem_of(citizen, collective, 0),
			.type = RONDO_I32,
			.op = RONDO_LXOR,
			.count = 100 };

		if (rd_board_work(citizen->comm->board, &asked, &work) !=
			(way->becomes == RD_KERNEL_FUSED || way->becomes == RD_KERNEL_STEPPED))
			return world_say(citizen, "%s", rd_collective_name(collective));
		asked.terms = &function;
		if (rd_board_work(citizen->comm->board, &asked, &work))
			return world_say(
				citizen, "%s by a function", rd_collective_name(collective));
	}
	/* Who leaves while another is still being made is missed. */
	return expect_error(citizen, rondo_barrier(citizen->comm, NULL), 0);
}

Test(board, only_functions_of_the_programs_own_go_through_host_memory, .timeout = 120)
{
	try_ways(2, only_functions_are_staged, 0, true);
}

/* ---- Graphs -------------------------------------------------------------------------------- */

/* What is captured: the sum of all inputs, and then the beginning of everybody's. */
static int capture_calls(
	struct citizen *citizen, struct memory *memory, struct rd_emulated_graph **graph)
{
	void *stream = rd_stream_lane(memory->stream)->stream;
	int err = rd_emulated_capture(stream), ended;

	if (!err)
		err = rondo_all_reduce(citizen->comm, memory->in, memory->out, COUNT_MAX, RONDO_F32,
			RONDO_SUM, memory->stream);
	if (!err)
		err = rondo_all_gather(citizen->comm, memory->out, memory->out + COUNT_MAX, 100,
			RONDO_F32, memory->stream);
	ended = rd_emulated_capture_end(stream, graph);
	return err ? err : ended;
}

static int check_replay(struct citizen *citizen, const struct memory *memory, float added)
{
	for (size_t i = 0; i < COUNT_MAX; i++) {
		float sum = value(0, i) + value(1, i) + value(2, i) + 3 * added;

		if (memory->out[i] != sum ||
			(i < 300 && memory->out[COUNT_MAX + i] != memory->out[i % 100]))
			return world_say(
				citizen, "element %zu is %g, not %g", i, memory->out[i], sum);
	}
	return 0;
}

/* Other calls come in between, with so many buffers that peers forget what they had mapped first.
 */
static int make_other_calls(struct citizen *citizen, struct memory *memory)
{
	float *others[40];
	int device = citizen->rank % rondo_device_count(), err = 0;

	for (int i = 0; i < 40 && !err; i++) {
		err = rondo_mem_alloc_on((void **)&others[i], 4096, device);
		if (!err)
			err = rondo_all_reduce(citizen->comm, others[i], others[i], 1000, RONDO_F32,
				RONDO_SUM, memory->stream);
	}
	if (!err)
		err = rondo_stream_synchronize(memory->stream);
	for (int i = 0; i < 40 && !err; i++)
		err = rondo_mem_free(others[i]);
	return err;
}

static int capture_and_replay(struct citizen *citizen)
{
	struct rd_emulated_graph *graph = NULL;
	struct memory memory;
	int wrong = open_memory(citizen, &memory);

	if (wrong)
		return wrong;
	if (capture_calls(citizen, &memory, &graph))
		wrong = world_say(citizen, "%s", rondo_last_error());
	/* Nothing has run yet. */
	if (!wrong)
		wrong = expect_floats(citizen, memory.out, COUNT_MAX, 0);
	for (int replay = 0; replay < 60 && !wrong; replay++) {
		for (size_t i = 0; i < COUNT_MAX; i++)
			memory.in[i] = value(citizen->rank, i) + (float)replay;
		if (rd_emulated_replay(graph, rd_stream_lane(memory.stream)->stream) ||
			rondo_stream_synchronize(memory.stream) ||
			(replay % 20 == 5 && make_other_calls(citizen, &memory)))
			wrong = world_say(citizen, "%s", rondo_last_error());
		if (!wrong)
			wrong = check_replay(citizen, &memory, (float)replay);
	}
	rd_emulated_graph_destroy(graph);
	close_memory(&memory);
	return wrong;
}

static const struct way fused_ways[] = {
	{ "emulated:4", "auto", true, NULL, RD_KERNEL_FUSED },
	{ "emulated:4", "auto", false, NULL, RD_KERNEL_FUSED },
};

Test(board, fused_calls_are_captured_and_replayed_any_number_of_times, .timeout = 120)
{
	for (int i = 0; i < 2; i++) {
		struct trial trial = { &fused_ways[i], 3, capture_and_replay, 0 };

		cr_expect_eq(in_child(run_trial, &trial), 0, "%s",
			fused_ways[i].threads ? "threads" : "processes");
	}
}

static int capture_in_vain(struct citizen *citizen)
{
	const struct way *way = citizen->argument;
	const char *reason = way->becomes == RD_KERNEL_STAGED    ? "go through host memory"
			     : way->becomes == RD_KERNEL_STEPPED ? "take turns on a device"
								 : "have no kernel for it";
	struct rd_emulated_graph *graph;
	struct memory memory;
	rondo_op own;
	int wrong = open_memory(citizen, &memory), err;
	void *stream;

	if (wrong)
		return wrong;
	stream = rd_stream_lane(memory.stream)->stream;
	rondo_op_create(citizen->comm, &own, subtract, 0, NULL);
	rd_emulated_capture(stream);
	err = rondo_all_reduce(
		citizen->comm, memory.in, memory.out, 10, RONDO_F32, own, memory.stream);
	if (err != RONDO_UNSUPPORTED || !strstr(rondo_last_error(), reason))
		wrong = world_say(citizen, "%s: %s", rondo_error_name(err), rondo_last_error());
	rd_emulated_capture_end(stream, &graph);
	rd_emulated_graph_destroy(graph);
	/* And does no harm. */
	if (!wrong)
		wrong = expect_error(citizen, one_call(citizen, &memory, 1000), 0);
	close_memory(&memory);
	return wrong;
}

Test(board, what_cannot_be_captured_says_why, .timeout = 120)
{
	try_ways(3, capture_in_vain, 0, true);
}

static int capture_on_one(struct citizen *citizen)
{
	struct rd_emulated_graph *graph;
	struct memory memory;
	int wrong = open_memory(citizen, &memory), err;

	if (wrong)
		return wrong;
	err = rondo_barrier(citizen->comm, NULL);
	if (!err && citizen->rank == 1) {
		err = capture_calls(citizen, &memory, &graph);
		rd_emulated_graph_destroy(graph);
	} else if (!err) {
		err = one_call(citizen, &memory, COUNT_MAX);
	}
	wrong = expect_error(citizen, err, RONDO_MISMATCH);
	if (!wrong && !strstr(rondo_last_error(), "captured all_reduce"))
		wrong = world_say(citizen, "%s", rondo_last_error());
	close_memory(&memory);
	return wrong;
}

Test(board, a_call_that_only_some_capture_is_a_mismatch, .timeout = 60)
{
	struct trial trial = { &fused_ways[1], 3, capture_on_one, 0 };

	cr_expect_eq(in_child(run_trial, &trial), 0);
}

/* ---- Mixed-up use -------------------------------------------------------------------------- */

static int refused(
	struct citizen *citizen, const void *in, void *out, rondo_stream *stream, const char *words)
{
	int err = rondo_all_reduce(citizen->comm, in, out, 1000, RONDO_F32, RONDO_SUM, stream);

	if (err == RONDO_INVALID && strstr(rondo_last_error(), words))
		return 0;
	return world_say(citizen, "not \"%s\": %s %s", words, rondo_error_name(err),
		err ? rondo_last_error() : "");
}

static int mixed_up(struct citizen *citizen)
{
	static float host[1000];
	float *elsewhere, *freed;
	rondo_stream *host_stream, *other_stream;
	struct memory memory;
	int other = (citizen->rank + 1) % 2, wrong = open_memory(citizen, &memory);

	if (wrong)
		return wrong;
	rondo_mem_alloc_on((void **)&elsewhere, 4096, other);
	rondo_mem_alloc_on((void **)&freed, 4096, citizen->rank % 2);
	rondo_mem_free(freed);
	rondo_stream_create(&host_stream);
	rondo_stream_create_on(&other_stream, other);
	wrong |= refused(citizen, host, memory.out, memory.stream, "send is no device memory");
	wrong |= refused(citizen, memory.in, host, memory.stream, "recv is no device memory");
	wrong |= refused(citizen, freed, memory.out, memory.stream, "or was freed");
	wrong |=
		refused(citizen, memory.in, memory.out, host_stream, "the stream is a host stream");
	wrong |= refused(citizen, memory.in, host, NULL, "the other buffer is not");
	wrong |= refused(citizen, host, memory.out, NULL, "the other buffer is not");
	wrong |= refused(citizen, elsewhere, memory.out, memory.stream, "send lies on device");
	wrong |= refused(citizen, memory.in, memory.out, other_stream, "the stream is of device");
	wrong |= refused(citizen, elsewhere + 100, memory.out, NULL, "send lies on device");
	wrong |= refused(citizen, memory.in + (size_t)citizen->size * (COUNT_MAX + 1) - 10,
		memory.out, memory.stream, "its memory ends after");
	/* None of these harmed the comm, on which host memory is as good as ever. */
	if (!wrong)
		wrong = expect_error(citizen, one_call(citizen, &memory, 1000), 0);
	if (!wrong)
		wrong = expect_error(citizen,
			rondo_all_reduce(
				citizen->comm, host, host, 1000, RONDO_F32, RONDO_SUM, NULL),
			0);
	rondo_stream_destroy(host_stream);
	rondo_stream_destroy(other_stream);
	rondo_mem_free(elsewhere);
	close_memory(&memory);
	return wrong;
}

Test(board, mixed_up_buffers_and_streams_are_refused_with_the_reason, .timeout = 60)
{
	struct way way = ways[3];
	struct trial trial = { &way, 2, mixed_up, 0 };

	way.device = "emulated:2";
	cr_expect_eq(in_child(run_trial, &trial), 0);
}
