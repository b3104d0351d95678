/*
 * f16 (IEEE 754 binary16) and bf16 (the upper half of an f32), for the host's code and for kernels.
 * Conversions round to nearest even. A subnormal f16 is rounded by the addition of a number whose
 * last bit weighs as much: Fabian Giesen, "Float->half variants".
 */
#ifndef TRAIN_DEVICE_HALF_H
#define TRAIN_DEVICE_HALF_H

#include <stdint.h>
#include <string.h>

#ifdef __CUDACC__
#define HALF_FUNCTION static __device__ inline
#else
#define HALF_FUNCTION static inline
#endif

HALF_FUNCTION uint32_t half_bits(float value)
{
	uint32_t bits;
	memcpy(&bits, &value, sizeof(bits));
	return bits;
}

HALF_FUNCTION float half_value(uint32_t bits)
{
	float value;
	memcpy(&value, &bits, sizeof(value));
	return value;
}

HALF_FUNCTION uint16_t bf16_of(float value)
{
	uint32_t bits = half_bits(value);
	uint32_t rounded = (bits + 0x7fff + (bits >> 16 & 1)) >> 16;
	/* A NaN stays one: its quiet bit is set. */
	return (uint16_t)((bits & 0x7fffffff) > 0x7f800000 ? bits >> 16 | 0x40 : rounded);
}

HALF_FUNCTION float f32_of_bf16(uint16_t half)
{
	return half_value((uint32_t)half << 16);
}

HALF_FUNCTION uint16_t f16_of(float value)
{
	uint32_t sign = half_bits(value) >> 16 & 0x8000, bits = half_bits(value) & 0x7fffffff;
	/* From 65520 on, a number is rounded to infinity. */
	uint32_t large = bits > 0x7f800000 ? 0x7e00 | (bits >> 13 & 0x1ff) : 0x7c00;
	uint32_t normal = (bits - (112u << 23) + 0xfff + (bits >> 13 & 1)) >> 13;
	uint32_t subnormal = half_bits(half_value(bits) + 0.5f) - half_bits(0.5f);
	uint32_t half = bits >= 0x47800000 ? large : bits < 0x38800000 ? subnormal : normal;
	return (uint16_t)(sign | half);
}

HALF_FUNCTION float f32_of_f16(uint16_t half)
{
	uint32_t sign = (uint32_t)(half & 0x8000) << 16, bits = (uint32_t)(half & 0x7fff) << 13;
	uint32_t large = 0x7f800000 | bits;
	uint32_t normal = bits + (112u << 23);
	/* A multiple of 2^-24. */
	uint32_t subnormal = half_bits((float)(half & 0x3ff) * 0x1p-24f);
	uint32_t exponent = half >> 10 & 31;
	return half_value(sign | (exponent == 31 ? large : exponent ? normal : subnormal));
}

#endif
