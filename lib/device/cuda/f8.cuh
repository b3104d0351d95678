/*
 * Conversions of 8-bit floats in kernels, two at a time: by the GPU's instructions where it has
 * them (from sm_89), else by lib/exec/f8.h. Both round to nearest even, keep -0 and subnormals,
 * saturate infinity to the greatest number, and make 0x7f of each NaN. Widened, a NaN differs in
 * its sign and payload alone, which no result keeps. tests/unit/device/test_f8_model.c compares all
 * codes.
 */
#ifndef RD_F8_CUH
#define RD_F8_CUH

#include <cuda_fp16.h>
#include <stdint.h>

#include "exec/f8.h"

#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 890

static __device__ float2 widen_halves(uint32_t halves)
{
	return { __half2float(__ushort_as_half((unsigned short)halves)),
		__half2float(__ushort_as_half((unsigned short)(halves >> 16))) };
}

/* The first in the low byte. */
static __device__ float2 widen_two_e4m3(uint16_t codes)
{
	uint32_t halves;

	asm("cvt.rn.f16x2.e4m3x2 %0, %1;" : "=r"(halves) : "h"(codes));
	return widen_halves(halves);
}

static __device__ float2 widen_two_e5m2(uint16_t codes)
{
	uint32_t halves;

	asm("cvt.rn.f16x2.e5m2x2 %0, %1;" : "=r"(halves) : "h"(codes));
	return widen_halves(halves);
}

static __device__ uint16_t narrow_two_e4m3(float2 values)
{
	uint16_t codes;

	asm("cvt.rn.satfinite.e4m3x2.f32 %0, %1, %2;" : "=h"(codes) : "f"(values.y), "f"(values.x));
	return codes;
}

static __device__ uint16_t narrow_two_e5m2(float2 values)
{
	uint16_t codes;

	asm("cvt.rn.satfinite.e5m2x2.f32 %0, %1, %2;" : "=h"(codes) : "f"(values.y), "f"(values.x));
	return codes;
}

#else

static __device__ float2 widen_two_e4m3(uint16_t codes)
{
	return { f8e4m3_widen((uint8_t)codes), f8e4m3_widen((uint8_t)(codes >> 8)) };
}

static __device__ float2 widen_two_e5m2(uint16_t codes)
{
	return { f8e5m2_widen((uint8_t)codes), f8e5m2_widen((uint8_t)(codes >> 8)) };
}

static __device__ uint16_t narrow_two_e4m3(float2 values)
{
	return (uint16_t)(f8e4m3_narrow(values.x) | f8e4m3_narrow(values.y) << 8);
}

static __device__ uint16_t narrow_two_e5m2(float2 values)
{
	return (uint16_t)(f8e5m2_narrow(values.x) | f8e5m2_narrow(values.y) << 8);
}

#endif

#endif
