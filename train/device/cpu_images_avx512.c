/* Kernels for AVX-512, in vectors of 16 floats. */
#if defined(__x86_64__)

#if !defined(__clang__)
#pragma GCC optimize("O3")
#pragma GCC target("avx512f,avx512bw,avx512dq,avx512vl,fma")
#endif

#include <immintrin.h>

#include "train/device/cpu_images.h"

#if defined(__clang__)
#pragma clang attribute push( \
	__attribute__((target("avx512f,avx512bw,avx512dq,avx512vl,fma"))), apply_to = function)
#endif

#define VARIANT cpu_images_avx512
#define WIDTH 16

/* Sums in 32 registers: channels by vectors of a convolution, channels by taps of its gradient. */
#define CONV_CHANNELS 4
#define CONV_VECTORS 4
#define GRAD_CHANNELS 4
#define GRAD_TAPS 5

typedef __m512 floats;
typedef __m512d doubles; /* half as many */
typedef int32_t integers __attribute__((vector_size(64)));

static inline floats load(const float *from)
{
	return _mm512_loadu_ps(from);
}

static inline __mmask16 lanes(int first, int end)
{
	return (__mmask16)((1u << end) - (1u << first));
}

/* Elements first to end - 1, and zeros elsewhere, which it does not read. */
static inline floats load_part(const float *from, int first, int end)
{
	return _mm512_maskz_loadu_ps(lanes(first, end), from);
}

static inline void store(float *to, floats x)
{
	_mm512_storeu_ps(to, x);
}

/* The first count elements. */
static inline void store_part(float *to, floats x, int count)
{
	_mm512_mask_storeu_ps(to, lanes(0, count), x);
}

/* In a register: GCC would read memory again for each use. */
static inline floats keep(floats x)
{
	__asm__("" : "+v"(x));
	return x;
}

static inline floats all(float x)
{
	return _mm512_set1_ps(x);
}

static inline floats add(floats a, floats b)
{
	return _mm512_add_ps(a, b);
}

static inline floats multiply_add(floats a, floats b, floats c)
{
	return _mm512_fmadd_ps(a, b, c);
}

static inline float sum_of(floats x)
{
	return _mm512_reduce_add_ps(x);
}

static inline doubles low_half(floats x)
{
	return _mm512_cvtps_pd(_mm512_castps512_ps256(x));
}

static inline doubles high_half(floats x)
{
	return _mm512_cvtps_pd(_mm512_extractf32x8_ps(x, 1));
}

/* x where sign > 0, else 0. */
static inline floats where_positive(floats sign, floats x)
{
	return _mm512_maskz_mov_ps(_mm512_cmp_ps_mask(sign, all(0), _CMP_GT_OQ), x);
}

/* NaN stays. */
static inline floats at_least_zero(floats x)
{
	return _mm512_max_ps(all(0), x);
}

/* Elements 0, 2, 4 ... of a and b. */
static inline floats even_of(floats a, floats b)
{
	__m512i at = _mm512_setr_epi32(0, 2, 4, 6, 8, 10, 12, 14, 16, 18, 20, 22, 24, 26, 28, 30);
	return _mm512_permutex2var_ps(a, at, b);
}

static inline floats odd_of(floats a, floats b)
{
	__m512i at = _mm512_setr_epi32(1, 3, 5, 7, 9, 11, 13, 15, 17, 19, 21, 23, 25, 27, 29, 31);
	return _mm512_permutex2var_ps(a, at, b);
}

/* The first half, and the second, of even and odd elements in turns. */
static inline floats zip_first(floats even, floats odd)
{
	__m512i at = _mm512_setr_epi32(0, 16, 1, 17, 2, 18, 3, 19, 4, 20, 5, 21, 6, 22, 7, 23);
	return _mm512_permutex2var_ps(even, at, odd);
}

static inline floats zip_second(floats even, floats odd)
{
	__m512i at =
		_mm512_setr_epi32(8, 24, 9, 25, 10, 26, 11, 27, 12, 28, 13, 29, 14, 30, 15, 31);
	return _mm512_permutex2var_ps(even, at, odd);
}

static inline integers load_bytes(const uint8_t *from, int count)
{
	return (integers)_mm512_cvtepu8_epi32(_mm_maskz_loadu_epi8(lanes(0, count), from));
}

static inline void store_bytes(uint8_t *to, integers x, int count)
{
	_mm_mask_storeu_epi8(to, lanes(0, count), _mm512_cvtepi32_epi8((__m512i)x));
}

#include "train/device/cpu_images_kernels.h"

#if defined(__clang__)
#pragma clang attribute pop
#endif

#endif
