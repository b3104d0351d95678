/* Kernels for AVX-512, in 64-byte vectors. */
#if defined(__x86_64__)

#if !defined(__clang__)
#pragma GCC optimize("O3")
#pragma GCC target("avx512f,avx512bw,avx512dq,avx512vl,f16c")
#endif

#include <immintrin.h>

#include "exec/half.h"
#include "exec/reduce_variant.h"

#if defined(__clang__)
#pragma clang attribute push( \
	__attribute__((target("avx512f,avx512bw,avx512dq,avx512vl,f16c"))), apply_to = function)
#endif

#define VARIANT rd_reduce_avx512
#define VARIANT_NAME "avx512"

typedef __m512 floats;
#define WIDTH 16

static inline __m512 widen(const void *half)
{
	return _mm512_cvtph_ps(_mm256_loadu_si256(half));
}

static inline void narrow(void *half, __m512 x)
{
	_mm256_storeu_si256(half, _mm512_cvtps_ph(x, _MM_FROUND_TO_NEAREST_INT));
}

static inline void copy_line(void *to, const void *at)
{
	_mm512_store_si512(to, _mm512_loadu_si512(at));
}

static inline __m512 lesser(__m512 x, __m512 y)
{
	return _mm512_or_ps(_mm512_min_ps(x, y), _mm512_min_ps(y, x));
}

static inline __m512 widen_one(uint16_t half)
{
	return _mm512_castps128_ps512(_mm_cvtph_ps(_mm_cvtsi32_si128(half)));
}

static inline uint16_t narrow_one(__m512 x)
{
	return (uint16_t)_mm_cvtsi128_si32(
		_mm_cvtps_ph(_mm512_castps512_ps128(x), _MM_FROUND_TO_NEAREST_INT));
}

#include "exec/reduce_kernels.h"

#if defined(__clang__)
#pragma clang attribute pop
#endif

#endif
