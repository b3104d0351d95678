/*
 * The 8-bit floats of the Open Compute Project ("OCP 8-bit Floating Point Specification", 2023).
 * Conversions to f32 and back round to nearest even. e4m3 has no infinity, and one NaN a sign (all
 * bits set). e5m2 is the upper byte of an f16. A number beyond the greatest finite one, infinity
 * too, becomes the greatest. This is the specification's saturating mode, which NCCL and CUDA use.
 * A NaN becomes 0x7f.
 *
 * The code has no branches, so that loops over it vectorise. A compiler makes a branch from ?:
 * where one side may trap, as floats may; hence rd_either(). Kernels for GPUs include this header
 * as well.
 */
#ifndef RD_F8_H
#define RD_F8_H

#include <stdint.h>
#include <string.h>

#ifdef __CUDACC__
#define RD_F8 static inline __device__
#else
#define RD_F8 static inline
#endif

RD_F8 uint32_t f8_bits(float value)
{
	uint32_t bits;
	memcpy(&bits, &value, sizeof(bits));
	return bits;
}

RD_F8 float f8_of_bits(uint32_t bits)
{
	float value;
	memcpy(&value, &bits, sizeof(value));
	return value;
}

RD_F8 uint32_t rd_either(uint32_t condition, uint32_t yes, uint32_t no)
{
	const uint32_t mask = 0u - condition;

	return (yes & mask) | (no & ~mask);
}

/* `bits`: exponent and mantissa of the code, at their place in an f32. `bias`: the difference
   between the two exponent biases. The FPU normalises a subnormal. */
RD_F8 uint32_t f8_finite(uint32_t bits, uint32_t bias)
{
	const uint32_t least = (bias + 1) << 23; /* the least normal number */
	const uint32_t subnormal = f8_bits(f8_of_bits(bits + least) - f8_of_bits(least));

	return rd_either(bits < 1u << 23, subnormal, bits + (bias << 23));
}

/* `shift`: the number of mantissa bits that an f32 has more. The last bit of `magic` weighs as
   much as the last bit of a subnormal, so adding it makes the FPU round. */
RD_F8 uint8_t f8_narrow(float value, uint32_t bias, uint32_t shift, uint32_t greatest)
{
	const uint32_t sign = f8_bits(value) >> 24 & 0x80;
	const uint32_t size = f8_bits(value) & 0x7fffffffu;
	const uint32_t bits = size < greatest ? size : greatest;
	const uint32_t magic = (bias + shift + 1) << 23;
	const uint32_t subnormal = f8_bits(f8_of_bits(bits) + f8_of_bits(magic)) - magic;
	const uint32_t below = (1u << (shift - 1)) - 1 + (bits >> shift & 1);
	const uint32_t normal = (bits - (bias << 23) + below) >> shift;
	const uint32_t finite = sign | rd_either(bits < (bias + 1) << 23, subnormal, normal);

	return (uint8_t)rd_either(size > 255u << 23, 0x7f, finite);
}

RD_F8 float f8e4m3_widen(uint8_t code)
{
	const uint32_t sign = (code & 0x80u) << 24, size = code & 0x7fu;

	return f8_of_bits(sign | rd_either(size == 0x7f, 0x7fc00000u, f8_finite(size << 20, 120)));
}

RD_F8 uint8_t f8e4m3_narrow(float value)
{
	return f8_narrow(value, 120, 20, 0x43e00000u); /* 448 */
}

RD_F8 float f8e5m2_widen(uint8_t code)
{
	const uint32_t sign = (code & 0x80u) << 24, size = code & 0x7fu;
	const uint32_t infinite = size > 0x7c ? 0x7fc00000u : 255u << 23;

	return f8_of_bits(sign | rd_either(size < 0x7c, f8_finite(size << 21, 112), infinite));
}

RD_F8 uint8_t f8e5m2_narrow(float value)
{
	return f8_narrow(value, 112, 21, 0x47600000u); /* 57344 */
}

#endif
