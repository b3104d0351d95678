/*
 * f16 (IEEE 754 binary16) and bf16 (the upper half of an f32). Conversions to f32 and back round
 * to nearest even. They have no branches (see f8.h), so that loops over them vectorise. They give
 * the same bits as F16C's instructions.
 *
 * The f16 conversions follow Fabian Giesen's "Float->half variants" and "Half->float"
 * (gist.github.com/rygorous). The FPU rounds, and normalises subnormals: the code adds or
 * subtracts a number whose last bit weighs as much as a subnormal f16's.
 */
#ifndef RD_HALF_H
#define RD_HALF_H

#include <stdint.h>
#include <string.h>

#include "exec/f8.h"

static inline uint32_t f32_bits(float value)
{
	uint32_t bits;
	memcpy(&bits, &value, sizeof(bits));
	return bits;
}

static inline float f32_of_bits(uint32_t bits)
{
	float value;
	memcpy(&value, &bits, sizeof(value));
	return value;
}

#define F32_INFINITY (255u << 23)
#define F32_QUIET (1u << 22) /* set in a NaN that does not signal, which is all that F16C makes */
#define F16_BIAS (112u << 23) /* the difference of the exponent biases of f32 and f16 */

static inline float f16_widen(uint16_t half)
{
	const uint32_t sign = (half & 0x8000u) << 16;
	const uint32_t bits = (half & 0x7fffu) << 13;
	const uint32_t least = F16_BIAS + (1u << 23); /* 2^-14, the least normal f16 */
	const uint32_t infinite = bits | F32_INFINITY | ((bits & ((1u << 23) - 1)) ? F32_QUIET : 0);
	const uint32_t subnormal = f32_bits(f32_of_bits(bits + least) - f32_of_bits(least));
	const uint32_t finite = rd_either(bits < 1u << 23, subnormal, bits + F16_BIAS);

	return f32_of_bits(sign | rd_either(bits >= 31u << 23, infinite, finite));
}

static inline uint16_t f16_narrow(float value)
{
	const uint32_t sign = f32_bits(value) >> 16 & 0x8000u;
	const uint32_t bits = f32_bits(value) & 0x7fffffffu;
	const uint32_t magic = 126u
			       << 23; /* 0.5: its last bit weighs 2^-24, as a subnormal f16's */
	const uint32_t subnormal = f32_bits(f32_of_bits(bits) + f32_of_bits(magic)) - magic;
	const uint32_t normal = (bits - F16_BIAS + 0xfff + (bits >> 13 & 1)) >> 13;
	const uint32_t finite = rd_either(bits < 113u << 23, subnormal, normal);
	const uint32_t nan = 0x7e00 | (bits >> 13 & 0x3ff);
	const uint32_t infinite = bits > F32_INFINITY ? nan : 0x7c00;

	/* 143: 2^16 */
	return (uint16_t)(sign | rd_either(bits >= 143u << 23, infinite, finite));
}

static inline float bf16_widen(uint16_t half)
{
	return f32_of_bits((uint32_t)half << 16);
}

/*
 * Returns, as bits, the f32 whose upper half is the nearest bf16; the lower half is left over. A
 * NaN is not rounded, because it could carry over into the sign. It is made quiet, since otherwise
 * the lower half alone might make it a NaN. AVX-512's own conversion does not serve: it takes
 * subnormals for zero.
 */
static inline uint32_t bf16_round(float value)
{
	const uint32_t bits = f32_bits(value);

	return value != value ? bits | F32_QUIET : bits + 0x7fff + (bits >> 16 & 1);
}

static inline uint16_t bf16_narrow(float value)
{
	return (uint16_t)(bf16_round(value) >> 16);
}

#endif
