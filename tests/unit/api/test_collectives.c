/* ctest label: threads */
/*
 * Every collective, type, operation and count, in place and not, over every transport. Each rank
 * computes the reference itself: exact for integers, in f64 for floats.
 */
#include <criterion/criterion.h>
#include <criterion/parameterized.h>
#include <stdlib.h>
#include <string.h>

#include "exec/algorithms.h"
#include "tuner/eligible.h"
#include "comm/plan_cache.h"
#include "checked_call.h"
#include "plan/collective.h"
#include "reference.h"
#include "world.h"

static int try_place(struct rank_env *env, const struct reference *r, bool in_place,
	struct checked_memory *memory)
{
	int err = checked_call(env, env->comm, r, in_place, NULL, memory);

	if (err < 0)
		return checked_call_wrong(env, r, in_place, rondo_last_error(), (size_t)err);
	return err;
}

/* ---- All of them --------------------------------------------------------------------------- */

static int try_collectives(struct rank_env *env, struct reference *r, struct checked_memory *memory)
{
	for (int collective = 0; collective < CHECKED_COLLECTIVES; collective++) {
		bool has_root = rd_collective_has_root(collective);
		int bad;

		r->collective = collective;
		r->root = has_root ? (int)(r->type + r->op) % r->size : 0;
		if (!rd_collective_reduces(collective) && r->op != RONDO_SUM)
			continue;
		bad = try_place(env, r, false, memory);
		if (!bad)
			bad = try_place(env, r, true, memory);
		if (bad)
			return bad;
	}
	return 0;
}

/* Much data is for one type of each size: others of that size run the same code. Worlds of one
   algorithm leave most types and operations to other worlds. */
static bool passes_over(const struct rank_env *env, size_t count, rondo_type type, rondo_op op)
{
	bool is_one_of_its_size =
		type == RONDO_I8 || type == RONDO_BF16 || type == RONDO_F32 || type == RONDO_I64;

	if (count > 1023 && !is_one_of_its_size)
		return true;
	return env->world->algo &&
	       ((type != RONDO_I32 && type != RONDO_F32 && type != RONDO_BF16) ||
		       (op != RONDO_SUM && op != RONDO_AVG));
}

static int try_count(struct rank_env *env, struct reference *r, struct checked_memory *memory)
{
	int bad = 0;

	for (int type = 0; type < RONDO_TYPE_COUNT && !bad; type++) {
		for (int op = 0; op < RONDO_OP_COUNT && !bad; op++) {
			if (passes_over(env, r->count, type, op) || !rondo_op_applies(op, type))
				continue;
			r->type = type;
			r->op = op;
			/* A product's inputs keep near 1; all other operations share theirs. */
			if (op == RONDO_SUM || op == RONDO_PROD || op == RONDO_PROD + 1)
				reference_fill(r);
			reference_combine(r);
			bad = try_collectives(env, r, memory);
		}
	}
	return bad;
}

/* Only gcc without sanitizers runs much data: elsewhere more of it shows nothing new, and
   sanitizers check every access. */
#if defined(__clang__) || defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define MOST 4099
#else
#define MOST 65537
#endif

static const size_t counts[] = { 0, 1, 7, 64, 1023, MOST };

static int try_everything(struct rank_env *env)
{
	struct checked_memory memory =
		checked_memory_get(env, (size_t)MOST * 16 * (size_t)env->size);
	struct reference reference;
	int bad = 0;

	reference_init(&reference, env->rank, env->size, MOST);
	if (!env->comm)
		bad = world_report(env, "create: %s: %s", rondo_error_name(env->create_error),
			rondo_last_error());
	for (size_t i = 0; i < sizeof(counts) / sizeof(*counts) && !bad; i++) {
		reference.count = env->world->algo && counts[i] > 4099 ? 4099 : counts[i];
		bad = try_count(env, &reference, &memory);
	}
	reference_finish(&reference);
	checked_memory_put(env, &memory);
	return bad;
}

static bool has_run(const rondo_comm *comm, enum rd_collective collective, const char *algorithm)
{
	for (struct rd_prepared *prepared = comm->prepared[collective]; prepared;
		prepared = prepared->next)
		if (strcmp(prepared->plans[0]->algorithm, algorithm) == 0)
			return true;
	return false;
}

/* The same, and the algorithm of the world ran wherever it can. */
static int try_algorithm(struct rank_env *env)
{
	const struct rd_algorithm *algorithm = rd_algorithm_named(env->world->algo);
	int bad = try_everything(env);

	if (!bad && rondo_barrier(env->comm, NULL))
		bad = world_report(env, "barrier: %s", rondo_last_error());
	for (int c = 0; c < RD_COLLECTIVE_COUNT && !bad; c++) {
		struct rd_problem problem = { c, env->rank, env->size, 0, 0,
			env->comm->layouts[0] };

		if (c != RD_TRANSFER && rd_algorithm_can(algorithm, &problem) &&
			!has_run(env->comm, c, algorithm->name))
			bad = world_report(
				env, "%s was not by %s", rd_collective_name(c), algorithm->name);
	}
	return bad;
}

static void run_everything(const struct world *world)
{
	struct rank_outcome outcomes[WORLD_MAX];

	cr_assert_eq(
		world_run(world, world->algo ? try_algorithm : try_everything, NULL, outcomes), 0);
	for (int i = 1; i < world->size; i++)
		cr_assert_eq(outcomes[i].number, outcomes[0].number,
			"ranks 0 and %d of %d hold different bits", i, world->size);
}

static struct world worlds[] = {
	{ .size = 1, .transport = NULL },
	{ .size = 2, .transport = "shm" },
	{ .size = 3, .transport = "shm" },
	{ .size = 4, .transport = "shm" },
	{ .size = 5, .transport = "shm" },
	{ .size = 8, .transport = "shm" },
	{ .size = 2, .transport = "tcp" },
	{ .size = 3, .transport = "tcp" },
	{ .size = 4, .transport = "tcp" },
	{ .size = 5, .transport = "tcp" },
	{ .size = 8, .transport = "tcp" },
	{ .size = 2, .transport = "mixed" },
	{ .size = 3, .transport = "mixed" },
	{ .size = 4, .transport = "mixed" },
	{ .size = 5, .transport = "mixed" },
	{ .size = 8, .transport = "mixed" },
	{ .size = 4, .transport = "shm", .channels = 3, .piece_size = 1000 },
	{ .size = 4, .transport = "tcp", .channels = 2, .piece_size = 4096 },
	{ .size = 5, .transport = "mixed", .channels = 3, .piece_size = 1000 },
	{ .size = 4, .transport = "mixed", .threads = true },
	{ .size = 2, .transport = "shm", .memory = REGISTERED },
	{ .size = 5, .transport = "shm", .memory = REGISTERED },
	{ .size = 3, .transport = "shm", .memory = REGISTERED, .threads = true },
	{ .size = 3, .transport = "shm", .memory = REGISTERED_BUT_FOR_RANK_0 },
};

/* Parameters are indices of worlds: they must not hold pointers, which move. */
ParameterizedTestParameters(collectives, are_right_for_every_type_operation_count_and_place)
{
	static int numbers[sizeof(worlds) / sizeof(*worlds)];

	size_t count = 0;

	for (size_t i = 0; i < sizeof(worlds) / sizeof(*worlds); i++) {
		if (worlds[i].threads || !ONLY_THREADS)
			numbers[count++] = (int)i;
	}
	return cr_make_param_array(int, numbers, count);
}

ParameterizedTest(int *number, collectives, are_right_for_every_type_operation_count_and_place,
	.timeout = 300)
{
	struct world world = worlds[*number];

	world.limit_ms = 240000;
	run_everything(&world);
}

/* Two hosts, of three and two or of two and two ranks; two channels share the links. Direct access
   takes one host, and registered memory. */
static struct world worlds_of_an_algorithm[][2] = {
	{
		{ .size = 5, .transport = "mixed", .channels = 2, .piece_size = 1024 },
		{ .size = 4, .transport = "mixed" },
	},
	{
		{ .size = 5,
			.transport = "shm",
			.channels = 2,
			.piece_size = 1024,
			.memory = REGISTERED },
		{ .size = 4, .transport = "shm", .memory = REGISTERED },
	},
};

ParameterizedTestParameters(collectives, are_right_by_every_algorithm)
{
	static int numbers[2 * RD_ALGORITHMS_KNOWN];
	size_t count = 0;

	for (int i = 0; rd_algorithms[i] && !ONLY_THREADS; i++)
		for (int w = 0; w < 2; w++)
			numbers[count++] = 2 * i + w;
	return cr_make_param_array(int, numbers, count);
}

ParameterizedTest(int *number, collectives, are_right_by_every_algorithm, .timeout = 300)
{
	const struct rd_algorithm *algorithm = rd_algorithms[*number / 2];
	struct world world = worlds_of_an_algorithm[algorithm->direct_access][*number % 2];

	world.algo = algorithm->name;
	world.limit_ms = 240000;
	run_everything(&world);
}
