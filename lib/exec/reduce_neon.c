/* Kernels for NEON, in 16-byte vectors. All of aarch64 has it, so compilers vectorise the plain
   loops by it, too: those of bf16 need no help, and f16 needs its instructions. */
#if defined(__aarch64__)

#if !defined(__clang__)
#pragma GCC optimize("O3")
#endif

#include <arm_neon.h>

#include "exec/half.h"
#include "exec/reduce_variant.h"

#define VARIANT rd_reduce_neon
#define VARIANT_NAME "neon"

typedef float32x4_t floats;
#define WIDTH 4

static inline float32x4_t widen(const void *half)
{
	uint16x4_t bits;

	memcpy(&bits, half, sizeof(bits));
	return vcvt_f32_f16(vreinterpret_f16_u16(bits));
}

static inline void narrow(void *half, float32x4_t x)
{
	uint16x4_t bits = vreinterpret_u16_f16(vcvt_f16_f32(x));

	memcpy(half, &bits, sizeof(bits));
}

static inline void copy_line(void *to, const void *at)
{
	memcpy(to, at, 64);
}

static inline float32x4_t lesser(float32x4_t x, float32x4_t y)
{
	uint32x4_t one = vreinterpretq_u32_f32(vbslq_f32(vcltq_f32(x, y), x, y));
	uint32x4_t other = vreinterpretq_u32_f32(vbslq_f32(vcltq_f32(y, x), y, x));

	return vreinterpretq_f32_u32(vorrq_u32(one, other));
}

static inline float32x4_t widen_one(uint16_t half)
{
	return vcvt_f32_f16(vreinterpret_f16_u16(vdup_n_u16(half)));
}

static inline uint16_t narrow_one(float32x4_t x)
{
	uint16_t all[WIDTH];

	narrow(all, x);
	return all[0];
}

#include "exec/reduce_kernels.h"

#endif
