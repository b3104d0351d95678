/* Kernels for AVX2, in 32-byte vectors. */
#if defined(__x86_64__)

#if !defined(__clang__)
#pragma GCC optimize("O3")
#pragma GCC target("avx2,f16c")
#endif

#include <immintrin.h>

#include "exec/half.h"
#include "exec/reduce_variant.h"

#if defined(__clang__)
#pragma clang attribute push(__attribute__((target("avx2,f16c"))), apply_to = function)
#endif

#define VARIANT rd_reduce_avx2
#define VARIANT_NAME "avx2"

typedef __m256 floats;
#define WIDTH 8

static inline __m256 widen(const void *half)
{
	return _mm256_cvtph_ps(_mm_loadu_si128(half));
}

static inline void narrow(void *half, __m256 x)
{
	_mm_storeu_si128(half, _mm256_cvtps_ph(x, _MM_FROUND_TO_NEAREST_INT));
}

static inline void copy_line(void *to, const void *at)
{
	__m256i a = _mm256_loadu_si256(at);
	__m256i b = _mm256_loadu_si256((const __m256i *)at + 1);

	_mm256_store_si256(to, a);
	_mm256_store_si256((__m256i *)to + 1, b);
}

static inline __m256 lesser(__m256 x, __m256 y)
{
	return _mm256_or_ps(_mm256_min_ps(x, y), _mm256_min_ps(y, x));
}

static inline __m256 widen_one(uint16_t half)
{
	return _mm256_cvtph_ps(_mm_cvtsi32_si128(half));
}

static inline uint16_t narrow_one(__m256 x)
{
	return (uint16_t)_mm_cvtsi128_si32(_mm256_cvtps_ph(x, _MM_FROUND_TO_NEAREST_INT));
}

#include "exec/reduce_kernels.h"

#if defined(__clang__)
#pragma clang attribute pop
#endif

#endif
