#include "reference.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "elements.h"

void reference_init(struct reference *r, int rank, int size, size_t most)
{
	*r = (struct reference){ .rank = rank,
		.size = size,
		.total = malloc(2 * most * sizeof(double[2])),
		.slack = malloc(2 * most * sizeof(double[2])),
		.integers = malloc(2 * most * sizeof(uint64_t)) };
	for (int i = 0; i < size; i++)
		r->inputs[i] = malloc(size * most * sizeof(double[2]));
}

void reference_finish(struct reference *r)
{
	for (int i = 0; i < r->size; i++)
		free(r->inputs[i]);
	free(r->total);
	free(r->slack);
	free(r->integers);
}

uint64_t reference_mix(uint64_t x)
{
	x = (x ^ x >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
	x = (x ^ x >> 27) * UINT64_C(0x94d049bb133111eb);
	return x ^ x >> 31;
}

/* Element i of a rank's input, before rounding to the type. */
static double float_input(const struct reference *r, int rank, size_t i)
{
	double unit = (double)(reference_mix((uint64_t)rank << 40 ^ i) >> 11) / 9007199254740992.0;

	return r->op == RONDO_PROD ? 0.5 + unit : 2 * unit - 1;
}

/* Half of the bools are false. */
static uint64_t integer_input(const struct reference *r, int rank, size_t i)
{
	uint64_t bits = reference_mix((uint64_t)rank << 40 ^ i);

	return r->type == RONDO_BOOL && bits % 2 == 0 ? 0 : bits;
}

static bool is_signed(rondo_type type)
{
	return type == RONDO_I8 || type == RONDO_I16 || type == RONDO_I32 || type == RONDO_I64;
}

static void fill_input(struct reference *r, int rank, size_t first, size_t count)
{
	size_t parts = (size_t)element_parts(r->type);
	rondo_type part = element_part(r->type);

	for (size_t i = first * parts; i < (first + count) * parts; i++)
		element_store(r->inputs[rank] + i * rondo_type_size(part), part,
			integer_input(r, rank, i),
			element_is_float(r->type) ? float_input(r, rank, i) : 0);
}

void reference_fill(struct reference *r)
{
	for (int rank = 0; rank < r->size; rank++) {
		fill_input(r, rank, 0, r->count);
		fill_input(r, rank, r->rank * r->count, r->count);
	}
	fill_input(r, r->rank, 0, r->count * r->size);
}

static uint64_t combine_integers(const struct reference *r, size_t i)
{
	uint64_t total = element_widen(integer_input(r, 0, i), r->type);

	for (int rank = 1; rank < r->size; rank++) {
		uint64_t x = element_widen(integer_input(r, rank, i), r->type);
		bool less = is_signed(r->type) ? (int64_t)x < (int64_t)total : x < total;

		if (r->type == RONDO_BOOL)
			total = element_combine_bits(element_bool_op(r->op), total, x);
		else if (r->op == RONDO_PROD)
			total *= x;
		else if (r->op == RONDO_MIN)
			total = less ? x : total;
		else if (r->op == RONDO_MAX)
			total = less ? total : x;
		else if (r->op > RONDO_AVG)
			total = element_combine_bits(r->op, total, x);
		else
			total += x;
	}
	total = element_widen(total, r->type);
	if (r->op == RONDO_AVG)
		total = is_signed(r->type) ? (uint64_t)((int64_t)total / r->size) : total / r->size;
	return total;
}

/* A part of an element, as the type has rounded it on its way into memory. */
static double rounded_input(const struct reference *r, int rank, size_t i)
{
	rondo_type part = element_part(r->type);

	return element_float(r->inputs[rank] + i * rondo_type_size(part), part);
}

/*
 * The product of complex numbers. With unit roundoff u, one of x and y is off by sqrt(5) u |x| |y|
 * at most, in any direction (Brent, Percival, Zimmermann: Error bounds on complex floating-point
 * multiplication). Over n ranks, n - 1 of them add up to less than 2.25 n u times the product of
 * all magnitudes; the reference, in double, may be off by as much in complex128.
 */
static void multiply_complex(const struct reference *r, size_t i, double *total, double *slack)
{
	double re = 1, im = 0, magnitude = 1;

	for (int rank = 0; rank < r->size; rank++) {
		double x = rounded_input(r, rank, 2 * i), y = rounded_input(r, rank, 2 * i + 1);
		double turned = re * y + im * x;

		re = re * x - im * y;
		im = turned;
		magnitude *= hypot(x, y);
	}
	total[0] = re;
	total[1] = im;
	slack[0] = slack[1] =
		2 * 2.25 * r->size * magnitude * (r->type == RONDO_COMPLEX64 ? 0x1p-24 : 0x1p-53);
}

/* The exact result, and how far rounding after each combination may lead from it. */
static double combine_floats(const struct reference *r, size_t i, double *slack)
{
	static const double epsilons[RONDO_TYPE_COUNT] = { [RONDO_F16] = 0x1p-11,
		[RONDO_BF16] = 0x1p-8,
		[RONDO_F32] = 0x1p-24,
		[RONDO_F64] = 0x1p-53,
		[RONDO_F8E4M3] = 0x1p-4,
		[RONDO_F8E5M2] = 0x1p-3 };
	/* The smallest numbers of a narrow type are rounded absolutely. */
	static const double leasts[RONDO_TYPE_COUNT] = {
		[RONDO_F16] = 0x1p-24, [RONDO_F8E4M3] = 0x1p-10, [RONDO_F8E5M2] = 0x1p-17
	};
	rondo_type part = element_part(r->type);
	double total = rounded_input(r, 0, i), magnitude = fabs(total);

	for (int rank = 1; rank < r->size; rank++) {
		double x = rounded_input(r, rank, i);

		if (r->op == RONDO_PROD)
			total *= x;
		else if (r->op == RONDO_MIN)
			total = fmin(total, x);
		else if (r->op == RONDO_MAX)
			total = fmax(total, x);
		else
			total += x;
		magnitude += fabs(x);
	}
	if (r->op == RONDO_PROD)
		magnitude = fabs(total);
	if (r->op == RONDO_AVG) {
		total /= r->size;
		magnitude /= r->size;
	}
	*slack = (r->size + 1) * (epsilons[part] * magnitude + leasts[part]);
	if (r->op == RONDO_MIN || r->op == RONDO_MAX || r->size == 1)
		*slack = 0;
	return total;
}

/* Reference results for the elements from `first` on, into the reference from `at` on. */
static void combine(struct reference *r, size_t first, size_t at)
{
	size_t element = rondo_type_size(r->type), parts = (size_t)element_parts(r->type);
	double *total = r->total + at * parts, *slack = r->slack + at * parts;

	for (size_t i = 0; i < r->count; i++) {
		if (parts == 2 && r->op == RONDO_PROD)
			multiply_complex(r, first + i, total + 2 * i, slack + 2 * i);
		else if (!element_is_float(r->type))
			element_store(r->integers + (at + i) * element, r->type,
				combine_integers(r, first + i), 0);
		else
			for (size_t k = i * parts; k < (i + 1) * parts; k++)
				total[k] = combine_floats(r, first * parts + k, &slack[k]);
	}
}

void reference_combine(struct reference *r)
{
	combine(r, 0, 0);
	combine(r, r->rank * r->count, r->count);
}

/* The bytes of a block of the result; NULL where the order of rounding matters. */
static const char *expected(const struct reference *r, size_t block)
{
	size_t own = r->rank * r->count * rondo_type_size(r->type);

	switch (r->collective) {
	case RD_ALL_GATHER:
	case RD_GATHER:
		return r->inputs[block];
	case RD_ALL_TO_ALL:
		return r->inputs[block] + own;
	case RD_SCATTER:
		return r->inputs[r->root] + own;
	case RD_BROADCAST:
		return r->inputs[r->root];
	case RD_REDUCE_SCATTER:
		if (!element_is_float(r->type))
			return r->integers + r->count * rondo_type_size(r->type);
		return NULL;
	default:
		return element_is_float(r->type) ? NULL : r->integers;
	}
}

/* How many bytes are the same, from the first on. */
static size_t same_bytes(const char *a, const char *b, size_t size)
{
	size_t i = 0;

	if (memcmp(a, b, size) == 0)
		return size;
	while (a[i] == b[i])
		i++;
	return i;
}

/* How many floats are right, from the first on. */
static size_t right_floats(const struct reference *r, const char *out)
{
	rondo_type part = element_part(r->type);
	size_t parts = (size_t)element_parts(r->type), size = rondo_type_size(part);
	size_t first = r->collective == RD_REDUCE_SCATTER ? r->count * parts : 0, i = 0;
	const double *total = r->total + first, *slack = r->slack + first;

	while (i < r->count * parts &&
		fabs(element_float(out + i * size, part) - total[i]) <= slack[i])
		i++;
	return i / parts;
}

size_t reference_right(const struct reference *r, const char *out, size_t block)
{
	size_t size = rondo_type_size(r->type);
	const char *at = out + block * r->count * size, *want = expected(r, block);

	return want ? same_bytes(at, want, r->count * size) / size : right_floats(r, at);
}
