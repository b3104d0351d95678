/* Kernels for AVX2 with FMA, in vectors of 8 floats. */
#if defined(__x86_64__)

#if !defined(__clang__)
#pragma GCC optimize("O3")
#pragma GCC target("avx2,fma")
#endif

#include <immintrin.h>

#include "train/device/cpu_images.h"

#if defined(__clang__)
#pragma clang attribute push(__attribute__((target("avx2,fma"))), apply_to = function)
#endif

#define VARIANT cpu_images_avx2
#define WIDTH 8

/* Sums in 16 registers, which also hold the factors. */
#define CONV_CHANNELS 4
#define CONV_VECTORS 3
#define GRAD_CHANNELS 2
#define GRAD_TAPS 5

typedef __m256 floats;
typedef __m256d doubles; /* half as many */
typedef int32_t integers __attribute__((vector_size(32)));

static inline floats load(const float *from)
{
	return _mm256_loadu_ps(from);
}

static inline __m256i lanes(int first, int end)
{
	__m256i lane = _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7);
	return _mm256_andnot_si256(_mm256_cmpgt_epi32(_mm256_set1_epi32(first), lane),
		_mm256_cmpgt_epi32(_mm256_set1_epi32(end), lane));
}

/* Elements first to end - 1, and zeros elsewhere, which it does not read. */
static inline floats load_part(const float *from, int first, int end)
{
	return _mm256_maskload_ps(from, lanes(first, end));
}

static inline void store(float *to, floats x)
{
	_mm256_storeu_ps(to, x);
}

/* The first count elements. */
static inline void store_part(float *to, floats x, int count)
{
	_mm256_maskstore_ps(to, lanes(0, count), x);
}

/* In a register: GCC would read memory again for each use. */
static inline floats keep(floats x)
{
	__asm__("" : "+x"(x));
	return x;
}

static inline floats all(float x)
{
	return _mm256_set1_ps(x);
}

static inline floats add(floats a, floats b)
{
	return _mm256_add_ps(a, b);
}

static inline floats multiply_add(floats a, floats b, floats c)
{
	return _mm256_fmadd_ps(a, b, c);
}

static inline float sum_of(floats x)
{
	__m128 y = _mm_add_ps(_mm256_castps256_ps128(x), _mm256_extractf128_ps(x, 1));
	y = _mm_add_ps(y, _mm_movehl_ps(y, y));
	return _mm_cvtss_f32(_mm_add_ss(y, _mm_movehdup_ps(y)));
}

static inline doubles low_half(floats x)
{
	return _mm256_cvtps_pd(_mm256_castps256_ps128(x));
}

static inline doubles high_half(floats x)
{
	return _mm256_cvtps_pd(_mm256_extractf128_ps(x, 1));
}

/* x where sign > 0, else 0. */
static inline floats where_positive(floats sign, floats x)
{
	return _mm256_and_ps(_mm256_cmp_ps(sign, all(0), _CMP_GT_OQ), x);
}

/* NaN stays. */
static inline floats at_least_zero(floats x)
{
	return _mm256_max_ps(all(0), x);
}

/* Elements 0, 2, 4 ... of a and b. */
static inline floats even_of(floats a, floats b)
{
	__m256d mixed = _mm256_castps_pd(_mm256_shuffle_ps(a, b, 0x88));
	return _mm256_castpd_ps(_mm256_permute4x64_pd(mixed, 0xd8));
}

static inline floats odd_of(floats a, floats b)
{
	__m256d mixed = _mm256_castps_pd(_mm256_shuffle_ps(a, b, 0xdd));
	return _mm256_castpd_ps(_mm256_permute4x64_pd(mixed, 0xd8));
}

/* The first half, and the second, of even and odd elements in turns. */
static inline floats zip_first(floats even, floats odd)
{
	return _mm256_permute2f128_ps(
		_mm256_unpacklo_ps(even, odd), _mm256_unpackhi_ps(even, odd), 0x20);
}

static inline floats zip_second(floats even, floats odd)
{
	return _mm256_permute2f128_ps(
		_mm256_unpacklo_ps(even, odd), _mm256_unpackhi_ps(even, odd), 0x31);
}

static inline integers load_bytes(const uint8_t *from, int count)
{
	long long bytes = 0;
	for (int i = 0; i < count; i++)
		bytes |= (long long)from[i] << 8 * i;
	return (integers)_mm256_cvtepu8_epi32(_mm_cvtsi64_si128(bytes));
}

static inline void store_bytes(uint8_t *to, integers x, int count)
{
	for (int i = 0; i < count; i++)
		to[i] = (uint8_t)x[i];
}

#include "train/device/cpu_images_kernels.h"

#if defined(__clang__)
#pragma clang attribute pop
#endif

#endif
