/* ctest label: instructions */
/*
 * Every kernel of every instruction set against a slow and obvious reference. Counts are around the
 * vectors' sizes; buffers are misaligned, and in place of either argument; canaries surround the
 * result.
 */
#include <criterion/criterion.h>
#include <math.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "exec/half.h"
#include "elements.h"
#include "exec/mean.h"
#include "exec/reduce.h"
#include "exec/reduce_variant.h"
#include "float_codes.h"

#define COUNT_MAX 20011
#define MARGIN 64

static const char *const instructions[] = { "plain", "avx2", "avx512", "neon" };

#define SETS (sizeof(instructions) / sizeof(instructions[0]))

/* ---- The reference ---- */

static double combined_f64(double x, double y, rondo_op op)
{
	bool x_first = x < y || (x == y && signbit(x));

	switch (op) {
	case RONDO_PROD:
		return x * y;
	case RONDO_MIN:
		return isnan(x) || isnan(y) ? NAN : x_first ? x : y;
	case RONDO_MAX:
		return isnan(x) || isnan(y) ? NAN : x_first ? y : x;
	default:
		return x + y;
	}
}

/* Combines two f32 with a single rounding: a double holds their exact sum or product. */
static float combined_f32(float x, float y, rondo_op op)
{
	return (float)combined_f64(x, y, op);
}

#define COMBINED_INTEGER(type, wide) \
	static type combined_##type(type x, type y, rondo_op op) \
	{ \
		switch (op) { \
		case RONDO_PROD: \
			return (type)((wide)x * (wide)y); \
		case RONDO_MIN: \
			return x < y ? x : y; \
		case RONDO_MAX: \
			return x < y ? y : x; \
		case RONDO_BAND: \
			return (type)(x & y); \
		case RONDO_BOR: \
			return (type)(x | y); \
		case RONDO_BXOR: \
			return (type)(x ^ y); \
		case RONDO_LAND: \
			return x && y; \
		case RONDO_LOR: \
			return x || y; \
		case RONDO_LXOR: \
			return !x != !y; \
		default: \
			return (type)((wide)x + (wide)y); \
		} \
	}

COMBINED_INTEGER(int8_t, uint64_t)
COMBINED_INTEGER(uint8_t, uint64_t)
COMBINED_INTEGER(int16_t, uint64_t)
COMBINED_INTEGER(uint16_t, uint64_t)
COMBINED_INTEGER(int32_t, uint64_t)
COMBINED_INTEGER(uint32_t, uint64_t)
COMBINED_INTEGER(int64_t, uint64_t)
COMBINED_INTEGER(uint64_t, uint64_t)

#define EACH(ctype, value) \
	for (size_t i = 0; i < count; i++) { \
		ctype x = ((const ctype *)a)[i], y = ((const ctype *)b)[i]; \
		(void)y; \
		((ctype *)into)[i] = (value); \
	} \
	break

/* Rounded after each operation: the compiler may fuse none. */
#define EACH_PRODUCT(real) \
	for (size_t i = 0; i < 2 * count; i += 2) { \
		const real *x = (const real *)a + i, *y = (const real *)b + i; \
		volatile real re = x[0] * y[0], im = x[0] * y[1]; \
		volatile real less = x[1] * y[1], more = x[1] * y[0]; \
		((real *)into)[i] = re - less; \
		((real *)into)[i + 1] = im + more; \
	}

static void reference(
	void *into, const void *a, const void *b, size_t count, rondo_type type, rondo_op op)
{
	switch (type) {
	case RONDO_I8:
		EACH(int8_t, combined_int8_t(x, y, op));
	case RONDO_U8:
		EACH(uint8_t, combined_uint8_t(x, y, op));
	case RONDO_I16:
		EACH(int16_t, combined_int16_t(x, y, op));
	case RONDO_U16:
		EACH(uint16_t, combined_uint16_t(x, y, op));
	case RONDO_I32:
		EACH(int32_t, combined_int32_t(x, y, op));
	case RONDO_U32:
		EACH(uint32_t, combined_uint32_t(x, y, op));
	case RONDO_I64:
		EACH(int64_t, combined_int64_t(x, y, op));
	case RONDO_U64:
		EACH(uint64_t, combined_uint64_t(x, y, op));
	case RONDO_F16:
		EACH(uint16_t, half_encode(combined_f32((float)half_decode(x, 10, 5),
						   (float)half_decode(y, 10, 5), op),
				       10, 5));
	case RONDO_BF16:
		EACH(uint16_t, half_encode(combined_f32((float)half_decode(x, 7, 8),
						   (float)half_decode(y, 7, 8), op),
				       7, 8));
	case RONDO_F8E4M3:
	case RONDO_F8E5M2:
		EACH(uint8_t, f8_encode(combined_f32((float)f8_decode(x, type),
						(float)f8_decode(y, type), op),
				      type));
	case RONDO_F32:
		EACH(float, combined_f32(x, y, op));
	case RONDO_BOOL:
		EACH(uint8_t, (uint8_t)element_combine_bits(element_bool_op(op), x, y));
	case RONDO_COMPLEX64:
		if (op != RONDO_PROD)
			reference(into, a, b, 2 * count, RONDO_F32, op);
		else
			EACH_PRODUCT(float);
		break;
	case RONDO_COMPLEX128:
		if (op != RONDO_PROD)
			reference(into, a, b, 2 * count, RONDO_F64, op);
		else
			EACH_PRODUCT(double);
		break;
	default:
		EACH(double, combined_f64(x, y, op));
	}
}

static void reference_average(void *into, const void *a, size_t count, rondo_type type, int by)
{
	const void *b = a;

	switch (type) {
	case RONDO_I8:
		EACH(int8_t, (int8_t)(x / by));
	case RONDO_U8:
		EACH(uint8_t, (uint8_t)(x / by));
	case RONDO_I16:
		EACH(int16_t, (int16_t)(x / by));
	case RONDO_U16:
		EACH(uint16_t, (uint16_t)(x / by));
	case RONDO_I32:
		EACH(int32_t, (int32_t)((int64_t)x / by));
	case RONDO_U32:
		EACH(uint32_t, (uint32_t)((int64_t)x / by));
	case RONDO_I64:
		EACH(int64_t, (int64_t)((__int128)x / by));
	case RONDO_U64:
		EACH(uint64_t, (uint64_t)((__int128)x / by));
	case RONDO_F32:
		EACH(float, (float)((double)x / by));
	default:
		EACH(double, x / by);
	}
}

static bool is_nan(const void *element, rondo_type type)
{
	uint16_t half;
	float f32;
	double f64;

	switch (type) {
	case RONDO_F16:
		memcpy(&half, element, 2);
		return (half & 0x7fff) > 0x7c00;
	case RONDO_BF16:
		memcpy(&half, element, 2);
		return (half & 0x7fff) > 0x7f80;
	case RONDO_F32:
		memcpy(&f32, element, 4);
		return isnan(f32);
	case RONDO_F8E4M3:
	case RONDO_F8E5M2:
		return isnan(f8_decode(*(const uint8_t *)element, type));
	case RONDO_F64:
		memcpy(&f64, element, 8);
		return isnan(f64);
	default:
		return false;
	}
}

/* The first element that differs; any NaN equals any. `count`: none differs. */
static size_t first_difference(const char *got, const char *wanted, size_t count, rondo_type type)
{
	size_t size = rondo_type_size(type);

	if (element_parts(type) == 2)
		return first_difference(got, wanted, 2 * count, element_part(type)) / 2;
	if (!memcmp(got, wanted, count * size))
		return count;
	for (size_t i = 0; i < count; i++)
		if (memcmp(got + i * size, wanted + i * size, size) &&
			!(is_nan(got + i * size, type) && is_nan(wanted + i * size, type)))
			return i;
	return count;
}

/* ---- Inputs ---- */

static uint64_t random_state;

/* xorshift64*: the same numbers everywhere. */
static uint64_t random_bits(void)
{
	random_state ^= random_state >> 12;
	random_state ^= random_state << 25;
	random_state ^= random_state >> 27;
	return random_state * 0x2545f4914f6cdd1d;
}

static void put_number(char *element, rondo_type type, double number)
{
	element_store(element, type, fabs(number) < 1e18 ? (uint64_t)(int64_t)number : UINT64_MAX,
		number);
}

/* Any bits, ordinary numbers, and special ones. */
static void fill(char *elements, size_t count, rondo_type type, uint64_t seed)
{
	static const double special[] = { 0, -0.0, 1, -1, INFINITY, -INFINITY, NAN, 65504, 65520,
		6e-8, -3e-8, 6.1e-5, 3.4e38, 1e-45, 1.2e-38, 1e-310, 127, -128, 2147483647.,
		-2147483648., 0.5 };
	size_t size = rondo_type_size(type);

	if (element_parts(type) == 2) {
		fill(elements, 2 * count, element_part(type), seed);
		return;
	}
	random_state = seed;
	for (size_t i = 0; i < count; i++) {
		uint64_t bits = random_bits();
		switch (bits >> 61) {
		case 0:
		case 1:
			put_number(elements + i * size, type, special[bits % 21]);
			break;
		case 2:
		case 3:
		case 4:
			put_number(elements + i * size, type, (double)(int32_t)bits / (1 << 20));
			break;
		default:
			bits = random_bits();
			memcpy(elements + i * size, &bits, size);
		}
	}
}

/* ---- The tests ---- */

static char a_source[COUNT_MAX * 16], b_source[COUNT_MAX * 16], wanted[COUNT_MAX * 16];
/* Two arguments and the result, each with room before and after. */
static char a_room[COUNT_MAX * 16 + 2 * MARGIN], b_room[COUNT_MAX * 16 + 2 * MARGIN],
	into_room[COUNT_MAX * 16 + 2 * MARGIN];

static bool canaries_live(const char *start, size_t size)
{
	for (size_t i = 0; i < 16; i++)
		if (start[-16 + (ptrdiff_t)i] != 0x5a || start[size + i] != 0x5a)
			return false;
	return true;
}

enum place { APART, INTO_A, INTO_B, PLACE_COUNT };

static void check_call(rd_reduce_function reduce, size_t count, rondo_type type, rondo_op op,
	size_t shift, enum place place)
{
	size_t size = count * rondo_type_size(type);
	char *a = a_room + 16 + shift, *b = b_room + 16 + (shift ? shift + 2 : 0);
	char *apart = into_room + 16 + (shift ? shift + 4 : 0);
	char *into = place == APART ? apart : place == INTO_A ? a : b;

	memset(a - 16, 0x5a, size + 32);
	memset(b - 16, 0x5a, size + 32);
	memset(apart - 16, 0x5a, size + 32);
	memcpy(a, a_source, size);
	memcpy(b, b_source, size);
	reduce(into, a, b, count);

	size_t wrong = first_difference(into, wanted, count, type);
	cr_assert(wrong == count, "%s %s: element %zu of %zu, shift %zu, place %d",
		rondo_type_name(type), rondo_op_name(op), wrong, count, shift, place);
	cr_assert(canaries_live(into, size), "%s %s: wrote beyond %zu elements",
		rondo_type_name(type), rondo_op_name(op), count);
	if (into != a)
		cr_assert(!memcmp(a, a_source, size), "wrote to its argument");
	if (into != b)
		cr_assert(!memcmp(b, b_source, size), "wrote to its argument");
}

static void check_kernel(const char *set, rondo_type type, rondo_op op)
{
	static const size_t large[] = { 1000, 4097, COUNT_MAX };
	rd_reduce_function reduce = rd_reduce_variant(set, type, op);

	fill(a_source, COUNT_MAX, type, 1);
	fill(b_source, COUNT_MAX, type, 2);
	reference(wanted, a_source, b_source, COUNT_MAX, type, op);
	for (int place = APART; place < PLACE_COUNT; place++) {
		for (size_t count = 0; count <= 130; count++)
			for (size_t shift = 0; shift < 4; shift++)
				check_call(reduce, count, type, op, shift, (enum place)place);
		for (size_t i = 0; i < 3; i++)
			for (size_t shift = 0; shift < 2; shift++)
				check_call(reduce, large[i], type, op, shift, (enum place)place);
	}
}

static bool here(const char *set)
{
	return rd_reduce_variant(set, RONDO_F32, RONDO_SUM) != NULL;
}

static void check_instructions(const char *set)
{
	if (!here(set))
		cr_skip_test("this processor has no %s", set);
	for (int type = 0; type < RONDO_TYPE_COUNT; type++)
		for (int op = 0; op < RONDO_OP_COUNT; op++)
			if (rondo_op_applies(op, type))
				check_kernel(set, (rondo_type)type, (rondo_op)op);
}

Test(reduce, plain_kernels_are_right, .timeout = 120)
{
	check_instructions("plain");
}

Test(reduce, avx2_kernels_are_right, .timeout = 120)
{
	check_instructions("avx2");
}

Test(reduce, avx512_kernels_are_right, .timeout = 120)
{
	check_instructions("avx512");
}

Test(reduce, neon_kernels_are_right, .timeout = 120)
{
	check_instructions("neon");
}

Test(reduce, the_best_instructions_are_chosen_at_load_time)
{
	const char *best = "plain";

	for (size_t i = 0; i < SETS; i++)
		if (here(instructions[i]))
			best = instructions[i];
	cr_assert_str_eq(rd_reduce_instructions(), best);
	for (int type = 0; type < RONDO_TYPE_COUNT; type++)
		for (int op = 0; op < RONDO_OP_COUNT; op++) {
			cr_assert_eq(rd_reduce((rondo_type)type, (rondo_op)op),
				rd_reduce_variant(best, (rondo_type)type, (rondo_op)op));
			cr_assert_eq(rd_reduce((rondo_type)type, (rondo_op)op) != NULL,
				rondo_op_applies(op, type));
		}
	cr_assert_null(rd_reduce_variant("mmx", RONDO_F32, RONDO_SUM));
}

/* The same bits, also of NaNs, unless a sum or product has two NaNs. */
static void check_same_bits(rondo_type type, rondo_op op)
{
	size_t size = rondo_type_size(type);

	rd_reduce_variant("plain", type, op)(wanted, a_source, b_source, COUNT_MAX);
	for (size_t set = 0; set < SETS; set++) {
		if (!here(instructions[set]))
			continue;
		rd_reduce_function reduce = rd_reduce_variant(instructions[set], type, op);
		reduce(into_room, a_source, b_source, COUNT_MAX);
		reduce(a_room, b_source, a_source, COUNT_MAX);
		/* Several NaNs may meet in one product. */
		if (element_parts(type) == 2) {
			cr_assert_eq(
				first_difference(into_room, wanted, COUNT_MAX, type), COUNT_MAX);
			cr_assert_eq(first_difference(a_room, wanted, COUNT_MAX, type), COUNT_MAX);
			continue;
		}
		for (size_t at = 0; at < COUNT_MAX * size; at += size) {
			if (op != RONDO_MIN && op != RONDO_MAX && is_nan(a_source + at, type) &&
				is_nan(b_source + at, type))
				continue;
			cr_assert(!memcmp(into_room + at, wanted + at, size) &&
					  !memcmp(a_room + at, wanted + at, size),
				"%s %s %s: element %zu", instructions[set], rondo_type_name(type),
				rondo_op_name(op), at / size);
		}
	}
}

Test(reduce, every_variant_and_either_order_of_arguments_give_the_same_bits)
{
	for (int type = 0; type < RONDO_TYPE_COUNT; type++) {
		fill(a_source, COUNT_MAX, (rondo_type)type, 3);
		fill(b_source, COUNT_MAX, (rondo_type)type, 4);
		for (int op = 0; op < RONDO_OP_COUNT; op++)
			if (rondo_op_applies(op, type))
				check_same_bits((rondo_type)type, (rondo_op)op);
	}
}

static void check_average(const struct rd_reduce_variant *variant, rondo_type type, int by)
{
	size_t size = rondo_type_size(type);

	fill(a_source, COUNT_MAX, type, 5);
	reference_average(wanted, a_source, COUNT_MAX, type, by);
	for (size_t count = 0; count <= COUNT_MAX; count = count < 70 ? count + 1 : count * 2) {
		char *into = into_room + 16 + count % 4;
		memset(into - 16, 0x5a, count * size + 32);
		memcpy(into, a_source, count * size);
		variant->average[type](into, count, by);
		size_t wrong = first_difference(into, wanted, count, type);
		cr_assert(wrong == count, "%s %s by %d: element %zu of %zu", variant->name,
			rondo_type_name(type), by, wrong, count);
		cr_assert(canaries_live(into, count * size));
	}
}

static const struct rd_reduce_variant *const variants[] = { &rd_reduce_plain,
#if defined(__x86_64__)
	&rd_reduce_avx2, &rd_reduce_avx512
#elif defined(__aarch64__)
	&rd_reduce_neon
#endif
};

#define VARIANT_COUNT (sizeof(variants) / sizeof(variants[0]))

static void check_copy(const struct rd_reduce_variant *variant, size_t size, size_t shift)
{
	static unsigned char from[5000], into[5000];

	for (size_t i = 0; i < sizeof(from); i++)
		from[i] = (unsigned char)(i * 7 + i / 256 + 1);
	memset(into, 0, sizeof(into));
	variant->copy(into + 64 + shift, from + 64 + size % 5, size);
	cr_assert_arr_eq(into + 64 + shift, from + 64 + size % 5, size);
	for (size_t i = 0; i < sizeof(into); i++)
		cr_assert(into[i] == 0 || (i >= 64 + shift && i < 64 + shift + size),
			"%s, %zu bytes: byte %zu", variant->name, size, i);
}

Test(reduce, copies_by_every_variant_are_whole_and_no_more)
{
	static const size_t sizes[] = { 64, 65, 127, 128, 129, 200, 2048, 2111, 4097 };

	for (size_t set = 0; set < VARIANT_COUNT && here(variants[set]->name); set++)
		for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++)
			for (size_t shift = 0; shift < 65; shift++)
				check_copy(variants[set], sizes[i], shift);
}

Test(reduce, averages_are_right)
{
	static const int by[] = { 1, 2, 3, 7, 300, 65536 };

	for (size_t set = 0; set < VARIANT_COUNT; set++)
		for (int type = 0; type < RONDO_TYPE_COUNT && here(variants[set]->name); type++)
			for (size_t i = 0; i < 6 && variants[set]->average[type]; i++)
				check_average(variants[set], (rondo_type)type, by[i]);
}

Test(reduce, an_average_goes_through_the_chosen_kernels)
{
	int32_t integers[] = { 7, -7, INT32_MIN };
	float f32 = 3, infinite[] = { 1, INFINITY };

	cr_assert(rd_average(integers, 3, RONDO_I32, 2));
	cr_assert(rd_average(&f32, 1, RONDO_F32, 2));
	cr_assert_not(rd_average(infinite, 2, RONDO_F32, 2));
	cr_assert_eq(integers[0], 3);
	cr_assert_eq(integers[1], -3);
	cr_assert_eq(integers[2], INT32_MIN / 2);
	cr_assert_eq(f32, 1.5f);
}

/* The kernels' instructions convert like our own code: x * 1 is x, except for signalling NaNs. */
Test(half, every_f16_passes_every_variant_unchanged)
{
	static uint16_t all[65536], ones[65536], got[65536];

	for (int i = 0; i < 65536; i++) {
		all[i] = (uint16_t)i;
		ones[i] = 0x3c00;
	}
	for (size_t set = 0; set < SETS; set++) {
		if (!here(instructions[set]))
			continue;
		rd_reduce_variant(instructions[set], RONDO_F16, RONDO_PROD)(got, all, ones, 65536);
		for (int i = 0; i < 65536; i++)
			cr_assert_eq(got[i], f16_narrow(f16_widen(all[i])), "%s: %#x",
				instructions[set], i);
	}
}
