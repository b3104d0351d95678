/*
 * The conversions of 8-bit floats that GPUs have (lib/device/cuda/f8.cuh) give the bits of
 * lib/exec/f8.h. The model of the instructions is NVIDIA's own: cuda_fp8.h computes on the host
 * what cvt.rn.satfinite gives on the device.
 */
#include <criterion/criterion.h>
#include <math.h>
#include <stdint.h>
#include <string.h>

#include <cuda_fp8.h>

#include "exec/f8.h"

static float of_bits(uint32_t bits)
{
	float value;

	memcpy(&value, &bits, sizeof(value));
	return value;
}

static void expect_narrow(uint32_t bits)
{
	float value = of_bits(bits);
	uint8_t e4m3 = f8e4m3_narrow(value), e5m2 = f8e5m2_narrow(value);
	uint8_t e4m3_there = __nv_cvt_float_to_fp8(value, __NV_SATFINITE, __NV_E4M3);
	uint8_t e5m2_there = __nv_cvt_float_to_fp8(value, __NV_SATFINITE, __NV_E5M2);

	cr_assert(e4m3 == e4m3_there, "e4m3 of %08x: %02x, not %02x", bits, e4m3, e4m3_there);
	cr_assert(e5m2 == e5m2_there, "e5m2 of %08x: %02x, not %02x", bits, e5m2, e5m2_there);
}

/* Each upper half is every code, every middle between two, and every exponent, with numbers close
   to these. */
Test(f8_model, floats_become_the_codes_that_gpus_make)
{
	static const uint32_t low[] = { 0, 1, 0x7fff, 0x8000, 0x8001, 0xffff };

	for (uint32_t high = 0; high < 0x10000; high++)
		for (size_t i = 0; i < sizeof(low) / sizeof(*low); i++)
			expect_narrow(high << 16 | low[i]);
}

/* The number of an f16, by its definition. */
static float of_half(uint16_t bits)
{
	int exponent = bits >> 10 & 31, mantissa = bits & 1023;
	float size = exponent == 31 ? (mantissa ? NAN : INFINITY)
		     : exponent     ? ldexpf((float)(1024 + mantissa), exponent - 25)
				    : ldexpf((float)mantissa, -24);

	return bits & 0x8000 ? -size : size;
}

/* A NaN's sign and payload may differ: when it is narrowed, both are lost. */
static void expect_wide(float here, uint16_t half, uint8_t code)
{
	float there = of_half(half);

	cr_expect(isnan(here) ? isnan(there) : here == there && !signbit(here) == !signbit(there),
		"code %02x: %g, not %g", code, (double)here, (double)there);
}

Test(f8_model, codes_become_the_numbers_that_gpus_make)
{
	for (int code = 0; code < 256; code++) {
		expect_wide(f8e4m3_widen((uint8_t)code),
			__nv_cvt_fp8_to_halfraw((uint8_t)code, __NV_E4M3).x, (uint8_t)code);
		expect_wide(f8e5m2_widen((uint8_t)code),
			__nv_cvt_fp8_to_halfraw((uint8_t)code, __NV_E5M2).x, (uint8_t)code);
	}
}

Test(f8_model, both_make_the_same_code_of_every_nan)
{
	for (uint32_t payload = 1; payload < 1u << 23; payload = payload * 2 + 1) {
		expect_narrow(255u << 23 | payload);
		expect_narrow(511u << 23 | payload);
	}
	cr_expect_eq(f8e4m3_narrow(f8e4m3_widen(0xff)), 0x7f);
	cr_expect_eq(f8e5m2_narrow(f8e5m2_widen(0xfe)), 0x7f);
}
