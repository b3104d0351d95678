#include "sweep.h"

#include "base/instructions.h"

#if defined(__x86_64__)
#include <immintrin.h>
#endif

/* The compiler uses as many registers for a line as the function's target needs. */
typedef float cache_line __attribute__((vector_size(64), aligned(64), may_alias));

static inline __attribute__((always_inline)) void copy_lines(
	float *into, const float *a, size_t count)
{
	cache_line *to = (cache_line *)into;
	const cache_line *from = (const cache_line *)a;

	for (size_t i = 0; i < count / 16; i++) {
		to[i] = from[i];
		/* Keeps the compiler from making this a call of memcpy(), which chooses its own
		 * stores. */
		__asm__ volatile("" ::: "memory");
	}
}

static inline __attribute__((always_inline)) void add_lines(
	float *into, const float *a, const float *b, size_t count)
{
	cache_line *to = (cache_line *)into;
	const cache_line *one = (const cache_line *)a, *other = (const cache_line *)b;

	for (size_t i = 0; i < count / 16; i++)
		to[i] = one[i] + other[i];
}

static void copy_plain(float *into, const float *a, const float *b, size_t count)
{
	(void)b;
	copy_lines(into, a, count);
}

static void add_plain(float *into, const float *a, const float *b, size_t count)
{
	add_lines(into, a, b, count);
}

#if defined(__x86_64__)
__attribute__((target("avx2"))) static void copy_avx2(
	float *into, const float *a, const float *b, size_t count)
{
	(void)b;
	copy_lines(into, a, count);
}

__attribute__((target("avx2"))) static void add_avx2(
	float *into, const float *a, const float *b, size_t count)
{
	add_lines(into, a, b, count);
}

__attribute__((target("avx512f"))) static void copy_avx512(
	float *into, const float *a, const float *b, size_t count)
{
	(void)b;
	for (size_t i = 0; i < count; i += 16)
		_mm512_store_ps(into + i, _mm512_load_ps(a + i));
}

__attribute__((target("avx512f"))) static void add_avx512(
	float *into, const float *a, const float *b, size_t count)
{
	for (size_t i = 0; i < count; i += 16)
		_mm512_store_ps(
			into + i, _mm512_add_ps(_mm512_load_ps(a + i), _mm512_load_ps(b + i)));
}

static void stream_copy_plain(float *into, const float *a, const float *b, size_t count)
{
	(void)b;
	for (size_t i = 0; i < count; i += 4)
		_mm_stream_ps(into + i, _mm_load_ps(a + i));
	_mm_sfence();
}

static void stream_add_plain(float *into, const float *a, const float *b, size_t count)
{
	for (size_t i = 0; i < count; i += 4)
		_mm_stream_ps(into + i, _mm_add_ps(_mm_load_ps(a + i), _mm_load_ps(b + i)));
	_mm_sfence();
}

__attribute__((target("avx2"))) static void stream_copy_avx2(
	float *into, const float *a, const float *b, size_t count)
{
	(void)b;
	for (size_t i = 0; i < count; i += 8)
		_mm256_stream_ps(into + i, _mm256_load_ps(a + i));
	_mm_sfence();
}

__attribute__((target("avx2"))) static void stream_add_avx2(
	float *into, const float *a, const float *b, size_t count)
{
	for (size_t i = 0; i < count; i += 8)
		_mm256_stream_ps(
			into + i, _mm256_add_ps(_mm256_load_ps(a + i), _mm256_load_ps(b + i)));
	_mm_sfence();
}

__attribute__((target("avx512f"))) static void stream_copy_avx512(
	float *into, const float *a, const float *b, size_t count)
{
	(void)b;
	for (size_t i = 0; i < count; i += 16)
		_mm512_stream_ps(into + i, _mm512_load_ps(a + i));
	_mm_sfence();
}

__attribute__((target("avx512f"))) static void stream_add_avx512(
	float *into, const float *a, const float *b, size_t count)
{
	for (size_t i = 0; i < count; i += 16)
		_mm512_stream_ps(
			into + i, _mm512_add_ps(_mm512_load_ps(a + i), _mm512_load_ps(b + i)));
	_mm_sfence();
}

static int width(void)
{
	if (rd_has_instructions(RD_AVX512))
		return 2;
	return rd_has_instructions(RD_AVX2) ? 1 : 0;
}

bench_sweep bench_sweep_find(bool add, bool non_temporal)
{
	static const bench_sweep sweeps[2][2][3] = {
		{ { copy_plain, copy_avx2, copy_avx512 }, { add_plain, add_avx2, add_avx512 } },
		{ { stream_copy_plain, stream_copy_avx2, stream_copy_avx512 },
			{ stream_add_plain, stream_add_avx2, stream_add_avx512 } },
	};
	return sweeps[non_temporal][add][width()];
}

const char *bench_sweep_instructions(void)
{
	static const char *const names[] = { "plain", "avx2", "avx512" };
	return names[width()];
}
#else
bench_sweep bench_sweep_find(bool add, bool non_temporal)
{
	return non_temporal ? NULL : add ? add_plain : copy_plain;
}

const char *bench_sweep_instructions(void)
{
	return "plain";
}
#endif
