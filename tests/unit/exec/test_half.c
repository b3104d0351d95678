/* ctest label: instructions */
/* Conversions between f32 and the narrow floats, each number and each tie, against the
   definition. */
#include <criterion/criterion.h>
#include <float.h>
#include <math.h>
#include <string.h>

#include "exec/f8.h"
#include "exec/half.h"
#include "float_codes.h"

static void check_narrow(uint16_t got, float value, int mantissa, int exponent)
{
	uint16_t right = half_encode((double)value, mantissa, exponent);

	if (isnan(value)) {
		int infinity = ((1 << exponent) - 1) << mantissa;
		cr_assert_gt(got & 0x7fff, infinity, "%a became %#x", (double)value, got);
	} else {
		cr_assert_eq(got, right, "%a became %#x, not %#x", (double)value, got, right);
	}
}

/* Around one number of the narrow type: itself, half way to the next, and just beside both. */
static void check_around(float low, float high, uint16_t narrow(float), int mantissa, int exponent)
{
	float middle = (float)(((double)low + (double)high) / 2);
	const float values[] = { low, nextafterf(low, high), nextafterf(middle, low), middle,
		nextafterf(middle, high), nextafterf(high, low), high };

	for (size_t i = 0; i < sizeof(values) / sizeof(values[0]); i++) {
		check_narrow(narrow(values[i]), values[i], mantissa, exponent);
		check_narrow(narrow(-values[i]), -values[i], mantissa, exponent);
	}
}

static void check_conversions(
	float widen(uint16_t), uint16_t narrow(float), int mantissa, int exponent)
{
	const int infinity = ((1 << exponent) - 1) << mantissa;

	for (int bits = 0; bits < 65536; bits++) {
		float got = widen((uint16_t)bits);
		double right = half_decode((uint16_t)bits, mantissa, exponent);
		if (isnan(right)) {
			cr_assert(isnan(got), "%#x", bits);
			cr_assert_eq(narrow(got), bits | 1 << (mantissa - 1), "%#x", bits);
			continue;
		}
		cr_assert(right == (double)got && !signbit(right) == !signbit(got), "%#x", bits);
		cr_assert_eq(narrow(got), bits, "%#x", bits);
		if (bits < infinity - 1)
			check_around(got, widen((uint16_t)(bits + 1)), narrow, mantissa, exponent);
	}
	/* Half way from the greatest number to what would come next, and far beyond. */
	float greatest = widen((uint16_t)(infinity - 1));
	float beyond = greatest + (greatest - widen((uint16_t)(infinity - 2))) / 2;
	check_narrow(narrow(nextafterf(beyond, 0)), nextafterf(beyond, 0), mantissa, exponent);
	check_narrow(narrow(beyond), beyond, mantissa, exponent);
	check_narrow(narrow(nextafterf(beyond, INFINITY)), nextafterf(beyond, INFINITY), mantissa,
		exponent);
	for (uint64_t bits = 0; bits <= UINT32_MAX; bits += 9973) {
		uint32_t word = (uint32_t)bits;
		float value;
		memcpy(&value, &word, 4);
		check_narrow(narrow(value), value, mantissa, exponent);
	}
}

Test(half, every_f16_converts_and_every_tie_rounds_to_even)
{
	check_conversions(f16_widen, f16_narrow, 10, 5);
}

Test(half, every_bf16_converts_and_every_tie_rounds_to_even)
{
	check_conversions(bf16_widen, bf16_narrow, 7, 8);
}

static void check_f8(
	float widen(uint8_t), uint8_t narrow(float), rondo_type type, int greatest, int infinity)
{
	for (int code = 0; code < 256; code++) {
		double right = f8_decode((uint8_t)code, type);
		float got = widen((uint8_t)code);

		cr_assert(isnan(right) ? isnan(got)
				       : right == (double)got && !signbit(right) == !signbit(got),
			"%#x became %g", code, (double)got);
		int back = isnan(right)                ? 0x7f
			   : (code & 0x7f) == infinity ? (code & 0x80) | greatest
						       : code;
		cr_assert_eq(narrow(got), back, "%#x", code);
	}
	for (int code = 0; code < greatest; code++) {
		float low = widen((uint8_t)code), high = widen((uint8_t)(code + 1));
		float middle = (low + high) / 2;
		const float values[] = { low, nextafterf(low, high), nextafterf(middle, low),
			middle, nextafterf(middle, high), nextafterf(high, low) };

		for (size_t i = 0; i < sizeof(values) / sizeof(values[0]); i++) {
			uint8_t right = f8_encode((double)values[i], type);

			cr_assert_eq(narrow(values[i]), right, "%a", (double)values[i]);
			cr_assert_eq(narrow(-values[i]), 0x80 | right, "%a", -(double)values[i]);
		}
	}
	for (uint64_t bits = 0; bits <= UINT32_MAX; bits += 99991) {
		uint32_t word = (uint32_t)bits;
		float value;

		memcpy(&value, &word, 4);
		cr_assert_eq(narrow(value), f8_encode((double)value, type), "%a", (double)value);
	}
	/* Greater numbers become the greatest number of the format. */
	static const float beyond[] = { 464, 480, 61440, 65536, FLT_MAX, INFINITY };

	for (size_t i = type == RONDO_F8E4M3 ? 0 : 2; i < sizeof(beyond) / sizeof(beyond[0]); i++) {
		cr_assert_eq(narrow(beyond[i]), greatest, "%a", (double)beyond[i]);
		cr_assert_eq(narrow(-beyond[i]), 0x80 | greatest, "%a", -(double)beyond[i]);
	}
}

Test(half, every_f8e4m3_converts_rounds_to_even_and_stops_at_448)
{
	cr_assert_eq(f8e4m3_widen(0x7e), 448);
	cr_assert_eq(f8e4m3_widen(0x01), 0x1p-9f);
	cr_assert_eq(f8e4m3_widen(0x38), 1);
	check_f8(f8e4m3_widen, f8e4m3_narrow, RONDO_F8E4M3, 0x7e, -1);
}

Test(half, every_f8e5m2_converts_rounds_to_even_and_stops_at_57344)
{
	cr_assert_eq(f8e5m2_widen(0x7b), 57344);
	cr_assert_eq(f8e5m2_widen(0x01), 0x1p-16f);
	cr_assert_eq(f8e5m2_widen(0x3c), 1);
	cr_assert_eq(f8e5m2_widen(0x7c), INFINITY);
	check_f8(f8e5m2_widen, f8e5m2_narrow, RONDO_F8E5M2, 0x7b, 0x7c);
}
