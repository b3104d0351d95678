#include "variants.h"

#include <criterion/criterion.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include "call_collective.h"
#include "comm/comm.h"
#include "elements.h"
#include "gpus.h"

const struct variant variants[VARIANTS] = {
	{ "1", "auto", true, NULL, RD_KERNEL_FUSED },
	{ "4", "auto", true, NULL, RD_KERNEL_FUSED },
	{ "1", "auto", false, NULL, RD_KERNEL_STEPPED },
	{ "4", "auto", false, NULL, RD_KERNEL_FUSED },
	{ "2", "stepped", true, NULL, RD_KERNEL_STEPPED },
	{ "2", "staged", false, NULL, RD_KERNEL_STAGED },
	{ "2,no-handles", "auto", false, NULL, RD_KERNEL_STAGED },
	{ "2", "auto", false, "tcp", RD_KERNEL_STAGED },
	{ "2", "auto", false, "mixed", RD_KERNEL_STAGED },
	{ "4", "messages", true, NULL, RD_KERNEL_MESSAGES },
	{ "4", "messages", false, "tcp", RD_KERNEL_MESSAGES },
};

/* The limit of a world without a timeout. */
#define LIMIT_MS 20000

static int go(
	const struct variant *variant, int size, int (*body)(struct rank_env *), int timeout_ms)
{
	struct world world = { .size = size,
		.threads = variant->threads,
		.transport = variant->transport,
		/* Making a comm may take longer where sanitizers slow it. */
		.call_timeout_ms = timeout_ms,
		.limit_ms = timeout_ms == NEVER_MS ? LIMIT_MS : 0 };
	struct rank_outcome outcomes[WORLD_MAX];
	int failed = 0;

	use_tests_gpus(variant->gpus);
	setenv("RONDO_KERNEL", variant->kernel, 1);
	world_run(&world, body, (void *)variant, outcomes);
	/* A rank that must die does so with 128 + SIGKILL. */
	for (int i = 0; i < size; i++)
		failed += outcomes[i].status != 0 && outcomes[i].status != 128 + SIGKILL;
	return failed;
}

int in_child(int (*run)(void *argument), void *argument)
{
	int status;
	pid_t pid;

	cr_assert(has_tests_driver(), NO_TESTS_DRIVER);
	pid = fork();
	if (pid == 0)
		_exit(run(argument));
	if (waitpid(pid, &status, 0) != pid)
		return -1;
	return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

int run_trial(void *argument)
{
	const struct trial *trial = argument;

	return go(trial->variant, trial->size, trial->body, trial->timeout_ms);
}

int try_body(
	const struct variant *variant, int size, int (*body)(struct rank_env *env), int timeout_ms)
{
	struct trial trial = { variant, size, body, timeout_ms };

	return in_child(run_trial, &trial);
}

/* ---- Values -------------------------------------------------------------------------------- */

/* Small whole numbers: sums and products are exact in every type. */
float value(int rank, size_t i)
{
	return (float)((i * 7 + (size_t)rank * 3) % 5 + 1);
}

void fill_floats(float *at, int rank, size_t count)
{
	for (size_t i = 0; i < count; i++)
		at[i] = value(rank, i);
}

/* The expected element i of block `block` of this rank's output. */
float expected(enum rd_collective collective, rondo_op op, int rank, int size, int root,
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
	for (int k = 1; k < size; k++)
		result = (float)element_combine(op, result, value(k, i));
	return op == RONDO_AVG ? result / (float)size : result;
}

int open_room(struct rank_env *env, struct memory *memory, size_t count)
{
	size_t bytes = (size_t)env->size * (count + 1) * sizeof(float);
	int device = env->rank % rondo_device_count();

	*memory = (struct memory){ 0 };
	if (env->create_error)
		return world_report(env, "create: %s", rondo_last_error());
	if (rondo_mem_alloc_on((void **)&memory->in, bytes, device) ||
		rondo_mem_alloc_on((void **)&memory->out, bytes, device) ||
		rondo_stream_create_on(&memory->stream, device))
		return world_report(env, "memory: %s", rondo_last_error());
	return 0;
}

int open_memory(struct rank_env *env, struct memory *memory)
{
	return open_room(env, memory, COUNT_MAX);
}

void close_memory(struct memory *memory)
{
	rondo_stream_destroy(memory->stream);
	rondo_mem_free(memory->in);
	rondo_mem_free(memory->out);
}

int with_memory(struct rank_env *env, int (*body)(struct rank_env *env, struct memory *memory))
{
	struct memory memory;
	int wrong = open_memory(env, &memory);

	if (wrong)
		return wrong;
	wrong = body(env, &memory);
	close_memory(&memory);
	return wrong;
}

struct rd_problem problem_of(const struct rank_env *env, enum rd_collective collective, int root)
{
	return (struct rd_problem){ .collective = collective,
		.rank = env->rank,
		.size = env->size,
		.root = rd_collective_has_root(collective) ? root : 0 };
}

static int check_output(struct rank_env *env, const struct memory *memory, const float *out,
	enum rd_collective collective, rondo_op op, int root, size_t count)
{
	struct rd_problem problem = problem_of(env, collective, root);
	size_t total = collective == RD_BARRIER ? 0 : (size_t)rd_out_blocks(&problem) * count;

	for (size_t i = 0; i < total; i++) {
		float wanted = expected(collective, op, env->rank, env->size, root, count, i);

		if (out[i] != wanted)
			return world_report(env, "%s of %zu, root %d: element %zu is %g, not %g",
				rd_collective_name(collective), count, root, i, out[i], wanted);
	}
	if (collective != RD_BARRIER && out == memory->out && out[total] != -1.0f)
		return world_report(env, "%s of %zu wrote behind its output",
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

int try_call(struct rank_env *env, struct memory *memory, enum rd_collective collective,
	rondo_op op, size_t count, bool in_place, bool on_stream)
{
	int root = env->size - 1, err;
	struct rd_problem problem = problem_of(env, collective, root);
	float *in = memory->in, *out = in_place ? out_in_place(&problem, in, count) : memory->out;
	size_t ins = (size_t)rd_in_blocks(&problem) * count;

	if (in_place && (collective == RD_ALL_GATHER || collective == RD_GATHER)) {
		out = in;
		in += (size_t)env->rank * count;
	}
	for (size_t i = 0; i <= (size_t)env->size * count; i++)
		memory->out[i] = -1.0f;
	fill_floats(in, env->rank, ins);
	err = call_collective(env->comm, collective, in, out, count, RONDO_F32, op, root,
		on_stream ? memory->stream : NULL);
	if (!err && on_stream)
		err = rondo_stream_synchronize(memory->stream);
	if (err)
		return world_report(
			env, "%s: %s", rd_collective_name(collective), rondo_last_error());
	return check_output(env, memory, out, collective, op, root, count);
}

int all_collectives(struct rank_env *env)
{
	static const size_t counts[] = { 1, 5, 64, COUNT_MAX, 0 };
	const struct variant *variant = env->argument;
	struct memory memory;
	int wrong = open_memory(env, &memory);

	if (wrong)
		return wrong;
	if (env->comm->gpu->kernel != variant->becomes)
		return world_report(env, "runs by kernel %d", env->comm->gpu->kernel);
	for (int collective = 0; collective < RD_COLLECTIVE_COUNT && !wrong; collective++) {
		if (collective == RD_TRANSFER)
			continue;
		for (int i = 0; i < 5 && !wrong; i++)
			for (int flags = 0; flags < 4 && !wrong; flags++)
				wrong = try_call(env, &memory, collective, RONDO_SUM, counts[i],
					flags & 1, flags & 2);
	}
	for (int op = 0; op <= RONDO_AVG && !wrong; op++)
		wrong = try_call(env, &memory, RD_ALL_REDUCE, op, 1000, false, true);
	close_memory(&memory);
	return wrong;
}

static void try_way(
	const struct variant *variant, int size, int (*body)(struct rank_env *env), int timeout_ms)
{
	cr_expect_eq(try_body(variant, size, body, timeout_ms), 0, "%s %s %s %s", variant->gpus,
		variant->kernel, variant->threads ? "threads" : "processes",
		variant->transport ? variant->transport : "");
}

void try_variants(int size, int (*body)(struct rank_env *env), int timeout_ms, bool threads_too)
{
	for (size_t i = 0; i < VARIANTS; i++)
		if (!variants[i].threads || threads_too)
			try_way(&variants[i], size, body, timeout_ms);
}

void try_threads(int size, int (*body)(struct rank_env *env), int timeout_ms)
{
	for (size_t i = 0; i < VARIANTS; i++)
		if (variants[i].threads)
			try_way(&variants[i], size, body, timeout_ms);
}

int expect_floats(struct rank_env *env, const float *at, size_t count, float wanted)
{
	for (size_t i = 0; i < count; i++)
		if (at[i] != wanted)
			return world_report(env, "element %zu is %g, not %g", i, at[i], wanted);
	return 0;
}

int one_call(struct rank_env *env, struct memory *memory, size_t count)
{
	int err = rondo_all_reduce(
		env->comm, memory->in, memory->out, count, RONDO_F32, RONDO_SUM, memory->stream);

	return err ? err : rondo_stream_synchronize(memory->stream);
}

int expect_error(struct rank_env *env, int err, int wanted)
{
	if (err == wanted)
		return 0;
	return world_report(env, "%s, not %s: %s", rondo_error_name(err), rondo_error_name(wanted),
		err ? rondo_last_error() : "");
}

int expect_mismatch(struct rank_env *env, size_t count,
	int (*call_otherwise)(struct rank_env *env, struct memory *memory))
{
	struct memory memory;
	int wrong = open_room(env, &memory, count), err;

	if (wrong)
		return wrong;
	/* A rank may get the error in the barrier already, but not while it creates its comm. */
	err = rondo_barrier(env->comm, NULL);
	if (!err)
		err = call_otherwise(env, &memory);
	wrong = expect_error(env, err, RONDO_MISMATCH);
	close_memory(&memory);
	return wrong;
}

void subtract(
	void *into, const void *a, const void *b, size_t count, rondo_type type, void *argument)
{
	(void)type;
	(void)argument;
	for (size_t i = 0; i < count; i++)
		((float *)into)[i] = ((const float *)a)[i] - ((const float *)b)[i];
}
