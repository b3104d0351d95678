#include "means.h"

#include <math.h>

#include "elements.h"
#include "exec/mean.h"

/* f8 numbers have no infinity that stays one. */
static double infinity_of(rondo_type type)
{
	return rondo_type_size(type) == 1 ? element_limits(type).greatest : INFINITY;
}

static double contribution(rondo_type type, size_t kind, int rank, int size)
{
	double most = element_limits(type).greatest, least = element_limits(type).least;
	double infinity = infinity_of(type);
	double least_normal = ldexp(least, element_limits(type).digits - 1);
	double scale = 1; /* partial sums may be scaled by 1 / this: by more, the number is lost */

	while (scale < size)
		scale *= 2;

	const double values[MEANS_KINDS] = {
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
		least_normal,
		least_normal + least * (rank % 2),
		least * scale,
	};

	return values[kind];
}

/* As stored in the type. */
static double stored(rondo_type type, size_t i, int rank, int size)
{
	unsigned char bytes[8];

	element_store(bytes, type, 0, contribution(type, i % MEANS_KINDS, rank, size));
	return element_float(bytes, type);
}

/* Half of the last place of a number of this size. */
static long double half_place(struct element_limits limits, long double value)
{
	int exponent = 0;

	frexpl(value, &exponent);
	return fmaxl(ldexpl(0.5L, exponent - limits.digits), limits.least / 2.0L);
}

/*
 * A sum's n - 1 additions and the division are each off by at most 2^-digits of the sum of sizes.
 *
 * Where two numbers at a time are added, they are scaled by 1 / 2^k, the greatest with which n fit:
 * 2^k <= 2 (n - 1). Each of n contributions then loses up to half of the least number, or
 * 2^k / 2 <= n - 1 times that of the sum as it is, and so the mean loses that. The division rounds.
 */
static bool is_right(rondo_type type, size_t i, int size, bool at_once, double got)
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
			(at_once || size == 2 ? 0.5L : size - 0.5L) * limits.least;
	return fabsl(got - sum / size) <= bound;
}

static int check_block(struct rank_env *env, rondo_type type, const char *name,
	const unsigned char *memory, size_t count, bool at_once)
{
	unsigned char out[MEANS_COUNT * sizeof(double)];

	TRY(rondo_copy(out, memory, count * rondo_type_size(type), NULL));
	for (size_t i = 0; i < count; i++) {
		double got = element_float(out + i * rondo_type_size(type), type);

		if (!is_right(type, i, env->size, at_once, got))
			return world_report(env, "%s of %s: element %zu is %a, of %a from rank 0",
				name, rondo_type_name(type), i, got, stored(type, i, 0, env->size));
	}
	return 0;
}

/* Each block begins with the first kind. */
static int fill(struct rank_env *env, rondo_type type, unsigned char *memory)
{
	unsigned char in[MEANS_COUNT * sizeof(double)];
	size_t size = MEANS_COUNT * rondo_type_size(type);

	for (size_t i = 0; i < MEANS_COUNT; i++)
		element_store(in + i * rondo_type_size(type), type, 0,
			contribution(type, i % MEANS_KINDS, env->rank, env->size));
	for (int block = 0; block < env->size; block++)
		TRY(rondo_copy(memory + block * size, in, size, NULL));
	return 0;
}

int means_try_type(
	struct rank_env *env, rondo_type type, unsigned char *in, unsigned char *out, bool at_once)
{
	size_t counts[WORLD_MAX];
	int root = env->size - 1, wrong;

	for (int rank = 0; rank < env->size; rank++)
		counts[rank] = MEANS_COUNT - MEANS_KINDS * (rank % 2);
	if (fill(env, type, in))
		return 1;
	TRY(rondo_all_reduce(env->comm, in, out, MEANS_COUNT, type, RONDO_AVG, NULL));
	wrong = check_block(env, type, "all_reduce", out, MEANS_COUNT, at_once);
	TRY(rondo_reduce(env->comm, in, out, MEANS_COUNT, type, RONDO_AVG, root, NULL));
	if (!wrong && env->rank == root)
		wrong = check_block(env, type, "reduce", out, MEANS_COUNT, false);
	TRY(rondo_reduce_scatter(env->comm, in, out, MEANS_COUNT, type, RONDO_AVG, NULL));
	if (!wrong)
		wrong = check_block(env, type, "reduce_scatter", out, MEANS_COUNT, false);
	TRY(rondo_reduce_scatter_v(env->comm, in, out, counts, type, RONDO_AVG, NULL));
	if (!wrong)
		wrong = check_block(env, type, "reduce_scatter_v", out, counts[env->rank], false);
	TRY(rondo_all_reduce(env->comm, in, in, MEANS_COUNT, type, RONDO_AVG, NULL));
	return wrong ? wrong
		     : check_block(env, type, "all_reduce in place", in, MEANS_COUNT, at_once);
}
