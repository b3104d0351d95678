#include "values.h"

#include <math.h>
#include <stdbool.h>
#include <string.h>

#define PERIOD 4099 /* prime: no power of two, and no block of equal size, is a multiple of it */
#define ELEMENT_MAX sizeof(double[2])

/* Whole numbers up to this are exact in the type. */
static int64_t limit_of(rondo_type type)
{
	switch (type) {
	case RONDO_BOOL:
		return 1;
	case RONDO_I8:
		return INT8_MAX;
	case RONDO_U8:
		return UINT8_MAX;
	case RONDO_I16:
		return INT16_MAX;
	case RONDO_U16:
		return UINT16_MAX;
	case RONDO_I32:
		return INT32_MAX;
	case RONDO_U32:
		return UINT32_MAX;
	case RONDO_F16:
		return 1 << 11;
	case RONDO_BF16:
		return 1 << 8;
	case RONDO_F8E4M3:
		return 1 << 4;
	case RONDO_F8E5M2:
		return 1 << 3;
	case RONDO_F32:
		return 1 << 24;
	case RONDO_F64:
		return (int64_t)1 << 53;
	default:
		return INT64_MAX / 4;
	}
}

static bool is_float(rondo_type type)
{
	return !rondo_op_applies(RONDO_BAND, type);
}

/* A complex number is two of these; others are one, of their own type. */
static rondo_type part_of(rondo_type type)
{
	return type == RONDO_COMPLEX64 ? RONDO_F32 : type == RONDO_COMPLEX128 ? RONDO_F64 : type;
}

static bool is_unsigned(rondo_type type)
{
	return type == RONDO_BOOL || type == RONDO_U8 || type == RONDO_U16 || type == RONDO_U32 ||
	       type == RONDO_U64;
}

/* The finalizer of SplitMix64 (Steele, Lea, Flood: Fast splittable pseudorandom number generators).
 */
static uint64_t hash(const struct bench_values *values, int rank, size_t index)
{
	uint64_t h = ((uint64_t)rank << 40) + ((uint64_t)values->seed << 20) + index;

	h = (h + 0x9e3779b97f4a7c15u) * 0xbf58476d1ce4e5b9u;
	h = (h ^ (h >> 27)) * 0x94d049bb133111ebu;
	return h ^ (h >> 31);
}

/* A whole number within +-limit. For sums each rank gets its share of the limit. */
static int64_t whole(const struct bench_values *values, int rank, size_t index)
{
	int64_t limit = limit_of(values->type), share = limit;
	uint64_t h = hash(values, rank, index);

	if (values->type != RONDO_BOOL && (values->op == RONDO_SUM || values->op == RONDO_AVG)) {
		if (rank >= limit)
			return 0;
		share = values->size < limit ? limit / values->size : 1;
	}
	/* Odd factors keep wrapped products from becoming zero. */
	int64_t odd = values->op == RONDO_PROD && values->type != RONDO_BOOL;
	if (is_unsigned(values->type))
		return (int64_t)(h % ((uint64_t)share + 1)) | odd;
	return ((int64_t)(h % (2 * (uint64_t)share + 1)) - share) | odd;
}

/* A power of two with a sign. Few ranks change the exponent, so it stays within the type's
   range. */
static double factor(const struct bench_values *values, int rank, size_t index)
{
	uint64_t h = hash(values, rank, index);
	int movers = values->type == RONDO_F8E4M3                                ? 6
		     : values->type == RONDO_F16 || values->type == RONDO_F8E5M2 ? 14
										 : 126;
	int exponent = rank < movers ? (int)(h % 3) - 1 : 0;

	/* The order of complex factors below zero would show in the sign of a 0. */
	return ldexp(h >> 63 && values->type == part_of(values->type) ? -1 : 1, exponent);
}

static int64_t combine_whole(const struct bench_values *values, int64_t a, int64_t b)
{
	/* A sum of bools. */
	if (values->type == RONDO_BOOL && values->op == RONDO_SUM)
		return a | b;
	switch (values->op) {
	case RONDO_MIN:
		return a < b ? a : b;
	case RONDO_MAX:
		return a > b ? a : b;
	case RONDO_PROD:
		return (int64_t)((uint64_t)a * (uint64_t)b); /* wraps; the low bits are right */
	case RONDO_BAND:
		return a & b;
	case RONDO_BOR:
		return a | b;
	case RONDO_BXOR:
		return a ^ b;
	case RONDO_LAND:
		return a && b;
	case RONDO_LOR:
		return a || b;
	case RONDO_LXOR:
		return !a != !b;
	default:
		return (int64_t)((uint64_t)a + (uint64_t)b);
	}
}

/* The bits without a sign, of a format whose least normal number is 2^least. Rounds to nearest
 * even.
 */
static int magnitude_bits(double magnitude, int mantissa, int least)
{
	int exponent;

	if (magnitude == 0)
		return 0;
	frexp(magnitude, &exponent); /* magnitude = [0.5, 1) * 2^exponent */
	exponent = exponent - 1 < least ? least : exponent - 1;
	/* In units of the last place: 1024..2048 for f16, where 2048 carries into the exponent. */
	return ((exponent - least) << mantissa) +
	       (int)nearbyint(ldexp(magnitude, mantissa - exponent));
}

static uint16_t f16_bits(double value)
{
	return (uint16_t)((signbit(value) ? 0x8000 : 0) + magnitude_bits(fabs(value), 10, -14));
}

static uint8_t f8_bits(double value, rondo_type type)
{
	int bits = type == RONDO_F8E4M3 ? magnitude_bits(fabs(value), 3, -6)
					: magnitude_bits(fabs(value), 2, -14);

	return (uint8_t)((signbit(value) ? 0x80 : 0) + bits);
}

/* Through f32: it has more than twice the bits and two, so rounding quotients twice is harmless. */
static uint16_t bf16_bits(double value)
{
	float narrow = (float)value;
	uint32_t bits;

	memcpy(&bits, &narrow, sizeof(bits));
	return (bits + 0x7fff + ((bits >> 16) & 1)) >> 16;
}

static void store_float(rondo_type type, void *into, double value)
{
	float narrow = (float)value;
	uint16_t bits = type == RONDO_F16 ? f16_bits(value) : bf16_bits(value);

	if (rondo_type_size(type) == 1)
		*(unsigned char *)into = f8_bits(value, type);
	else if (type == RONDO_F64)
		memcpy(into, &value, sizeof(value));
	else if (type == RONDO_F32)
		memcpy(into, &narrow, sizeof(narrow));
	else
		memcpy(into, &bits, sizeof(bits));
}

static void store_whole(rondo_type type, void *into, int64_t value)
{
	uint64_t bits = (uint64_t)value;
	uint32_t word = (uint32_t)bits;
	uint16_t half = (uint16_t)bits;
	uint8_t byte = (uint8_t)bits;

	switch (rondo_type_size(type)) {
	case 1:
		memcpy(into, &byte, sizeof(byte));
		break;
	case 2:
		memcpy(into, &half, sizeof(half));
		break;
	case 4:
		memcpy(into, &word, sizeof(word));
		break;
	default:
		memcpy(into, &bits, sizeof(bits));
	}
}

static void store_factor(const struct bench_values *values, void *into, int rank, size_t index)
{
	double value = 1;

	if (rank != BENCH_REDUCED) {
		value = factor(values, rank, index);
	} else {
		for (int k = 0; k < values->size; k++)
			value *= factor(values, k, index);
	}
	store_float(part_of(values->type), into, value);
}

static void store_one(const struct bench_values *values, void *into, int rank, size_t index)
{
	int64_t value = whole(values, rank == BENCH_REDUCED ? 0 : rank, index);

	if (rank == BENCH_REDUCED) {
		for (int k = 1; k < values->size; k++)
			value = combine_whole(values, value, whole(values, k, index));
	}
	bool average = rank == BENCH_REDUCED && values->op == RONDO_AVG;
	if (is_float(values->type))
		store_float(
			values->type, into, average ? (double)value / values->size : (double)value);
	else
		store_whole(values->type, into, average ? value / values->size : value);
}

/* Writes one period of elements from `offset` on, at most `count`; returns their number. */
static size_t write_period(const struct bench_values *values, unsigned char *period, size_t count,
	int rank, size_t offset)
{
	rondo_type part = part_of(values->type);
	struct bench_values of_part = { part, values->op, values->size, values->seed };
	size_t width = rondo_type_size(part), parts = rondo_type_size(values->type) / width;
	bool factors = values->op == RONDO_PROD && is_float(part);

	count = count < PERIOD ? count : PERIOD;
	for (size_t i = 0; i < count * parts; i++) {
		size_t index = (offset * parts + i) % (PERIOD * parts);

		/* The products of complex numbers are those of their real parts. */
		if (factors && i % parts > 0)
			store_float(part, period + i * width, 0);
		else if (factors)
			store_factor(values, period + i * width, rank, index);
		else
			store_one(&of_part, period + i * width, rank, index);
	}
	return count;
}

void bench_values_fill(
	const struct bench_values *values, void *into, size_t count, int rank, size_t offset)
{
	unsigned char period[PERIOD * ELEMENT_MAX], *at = into;
	size_t width = rondo_type_size(values->type);
	size_t length = write_period(values, period, count, rank, offset);

	for (size_t done = 0; done < count; done += length) {
		size_t part = count - done < length ? count - done : length;
		memcpy(at + done * width, period, part * width);
	}
}

static size_t differing(const unsigned char *a, const unsigned char *b, size_t count, size_t width)
{
	size_t found = 0;

	if (memcmp(a, b, count * width) == 0)
		return 0;
	for (size_t i = 0; i < count; i++)
		found += memcmp(a + i * width, b + i * width, width) != 0;
	return found;
}

size_t bench_values_wrong(
	const struct bench_values *values, const void *have, size_t count, int rank, size_t offset)
{
	unsigned char period[PERIOD * ELEMENT_MAX];
	const unsigned char *at = have;
	size_t width = rondo_type_size(values->type), wrong = 0;
	size_t length = write_period(values, period, count, rank, offset);

	for (size_t done = 0; done < count; done += length) {
		size_t part = count - done < length ? count - done : length;
		wrong += differing(at + done * width, period, part, width);
	}
	return wrong;
}

void bench_values_fill_neutral(rondo_type type, rondo_op op, void *into, size_t count)
{
	unsigned char one[ELEMENT_MAX], *at = into;
	size_t width = rondo_type_size(type);

	if (op != RONDO_PROD) {
		memset(into, 0, count * width);
		return;
	}
	memset(one, 0, sizeof(one));
	if (is_float(type))
		store_float(part_of(type), one, 1);
	else
		store_whole(type, one, 1);
	for (size_t i = 0; i < count; i++)
		memcpy(at + i * width, one, width);
}
