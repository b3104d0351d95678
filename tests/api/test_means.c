/*
 * Means of the greatest and the least numbers of every float type, by every algorithm: right to one
 * rounding of narrow floats, and to those of a sum of f32 and f64 (rondo.h, RONDO_AVG).
 */
#include <criterion/criterion.h>
#include <criterion/parameterized.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "elements.h"
#include "exec/algorithms.h"
#include "exec/mean.h"
#include "world.h"

/* Elements of a block: any chunk of it has all kinds. */
#define COUNT (5 * KINDS)
#define KINDS 12

/* f8 numbers have no infinity that stays one. */
static double infinity_of(rondo_type type)
{
	return rondo_type_size(type) == 1 ? element_limits(type).greatest : INFINITY;
}

static double contribution(rondo_type type, size_t kind, int rank, int size)
{
	double most = element_limits(type).greatest, least = element_limits(type).least;
	double infinity = infinity_of(type);

	const double values[KINDS] = {
		most,
		-most,
		rank % 2 ? -most : most,
		rank == size - 1 ? -most : most,
		most * 0.75,
		least,
		rank == 0 ? least : 0,
		least * (3 * rank + 1),
		rank == 0 ? infinity : 1,
		rank == 0 ? infinity : -infinity,
		rank == size - 1 ? NAN : most,
		rank + 1,
	};

	return values[kind];
}

/* As stored in the type. */
static double stored(rondo_type type, size_t i, int rank, int size)
{
	unsigned char bytes[8];

	element_store(bytes, type, 0, contribution(type, i % KINDS, rank, size));
	return element_float(bytes, type);
}

/* Half of the last place of a number of this size. */
static long double half_place(struct element_limits limits, long double value)
{
	int exponent = 0;

	frexpl(value, &exponent);
	return fmaxl(ldexpl(0.5L, exponent - limits.digits), limits.least / 2.0L);
}

/* Each addition, and the division, is off by at most 2^-digits of the sum of sizes. Where partial
   sums are scaled, each contribution may lose half of the least number, by 2^k < 2 size. */
static bool is_right(rondo_type type, size_t i, int size, double got)
{
	struct element_limits limits = element_limits(type);
	long double sum = 0, sizes = 0, bound;

	for (int rank = 0; rank < size; rank++) {
		long double value = stored(type, i, rank, size);

		sum += value;
		sizes += fabsl(value);
	}
	if (!isfinite(sum))
		return isnan(sum) ? isnan(got) : got == sum;
	if (rd_type_is_narrow(type))
		bound = half_place(limits, sum / size) + size * ldexpl(sizes / size, -24);
	else
		bound = size * ldexpl(sizes / size, -limits.digits) +
			(size > 2 ? size : 0.5L) * limits.least;
	return fabsl(got - sum / size) <= bound;
}

static int check_block(struct rank_env *env, rondo_type type, const char *name,
	const unsigned char *out, size_t count)
{
	for (size_t i = 0; i < count; i++) {
		double got = element_float(out + i * rondo_type_size(type), type);

		if (!is_right(type, i, env->size, got))
			return world_report(env, "%s of %s: element %zu is %a, of %a from rank 0",
				name, rondo_type_name(type), i, got, stored(type, i, 0, env->size));
	}
	return 0;
}

/* Each block begins with the first kind. */
static void fill(const struct rank_env *env, rondo_type type, unsigned char *in)
{
	for (size_t i = 0; i < COUNT * (size_t)env->size; i++)
		element_store(in + i * rondo_type_size(type), type, 0,
			contribution(type, i % KINDS, env->rank, env->size));
}

static int try_type(struct rank_env *env, rondo_type type, unsigned char *in, unsigned char *out)
{
	size_t counts[WORLD_MAX];
	int root = env->size - 1, wrong;

	for (int rank = 0; rank < env->size; rank++)
		counts[rank] = COUNT - KINDS * (rank % 2);
	fill(env, type, in);
	TRY(rondo_all_reduce(env->comm, in, out, COUNT, type, RONDO_AVG, NULL));
	wrong = check_block(env, type, "all_reduce", out, COUNT);
	TRY(rondo_reduce(env->comm, in, out, COUNT, type, RONDO_AVG, root, NULL));
	if (!wrong && env->rank == root)
		wrong = check_block(env, type, "reduce", out, COUNT);
	TRY(rondo_reduce_scatter(env->comm, in, out, COUNT, type, RONDO_AVG, NULL));
	if (!wrong)
		wrong = check_block(env, type, "reduce_scatter", out, COUNT);
	TRY(rondo_reduce_scatter_v(env->comm, in, out, counts, type, RONDO_AVG, NULL));
	if (!wrong)
		wrong = check_block(env, type, "reduce_scatter_v", out, counts[env->rank]);
	TRY(rondo_all_reduce(env->comm, in, in, COUNT, type, RONDO_AVG, NULL));
	return wrong ? wrong : check_block(env, type, "all_reduce in place", in, COUNT);
}

static int try_types(struct rank_env *env)
{
	size_t size = COUNT * sizeof(double);
	unsigned char *in = world_get_memory(env, size * (size_t)env->size);
	unsigned char *out = world_get_memory(env, size);
	int wrong = env->comm ? 0 : world_report(env, "%s", rondo_last_error());

	for (int type = RONDO_F16; type < RONDO_TYPE_COUNT && !wrong; type++)
		wrong = try_type(env, type, in, out);
	world_put_memory(env, out);
	world_put_memory(env, in);
	return wrong;
}

ParameterizedTestParameters(means, are_right_at_the_ends_of_the_range)
{
	static int numbers[RD_ALGORITHMS_KNOWN];
	size_t count = 0;

	while (rd_algorithms[count] && !ONLY_THREADS) {
		numbers[count] = (int)count;
		count++;
	}
	return cr_make_param_array(int, numbers, count);
}

ParameterizedTest(int *number, means, are_right_at_the_ends_of_the_range, .timeout = 300)
{
	const struct rd_algorithm *algorithm = rd_algorithms[*number];

	for (int size = 2; size <= 5; size++) {
		struct world world = { .size = size,
			.transport = size > 3 ? "mixed" : "shm",
			.memory = algorithm->direct_access ? REGISTERED : MALLOCED,
			.algo = algorithm->name,
			.limit_ms = 120000 };
		struct rank_outcome outcomes[WORLD_MAX];

		if (algorithm->direct_access)
			world.transport = "shm";
		cr_assert_eq(world_run(&world, try_types, NULL, outcomes), 0, "%s on %d ranks",
			algorithm->name, size);
	}
}
