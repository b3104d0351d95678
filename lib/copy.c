#include "copy.h"

#include <stdint.h>

static void copy_plain(void *into, const void *from, size_t size)
{
	memcpy(into, from, size);
}

void (*rd_copy_wide)(void *into, const void *from, size_t size) = copy_plain;

#if defined(__x86_64__)
#include <immintrin.h>

#define LINE 64

/* Up to the first whole line of `into`, whose stores then cross none. */
#define COPY_HEAD(to, at, size) \
	do { \
		size_t head = -(uintptr_t)(to) % LINE; \
		memcpy(to, at, LINE); \
		(to) += head; \
		(at) += head; \
		(size) -= head; \
	} while (0)

__attribute__((target("avx512f"))) static void copy_avx512(
	void *into, const void *from, size_t size)
{
	char *to = into;
	const char *at = from;

	COPY_HEAD(to, at, size);
	for (; size >= LINE; size -= LINE, to += LINE, at += LINE)
		_mm512_store_si512((void *)to, _mm512_loadu_si512((const void *)at));
	memcpy(to, at, size);
}

__attribute__((target("avx2"))) static void copy_avx2(void *into, const void *from, size_t size)
{
	char *to = into;
	const char *at = from;

	COPY_HEAD(to, at, size);
	for (; size >= LINE; size -= LINE, to += LINE, at += LINE) {
		__m256i a = _mm256_loadu_si256((const __m256i *)at);
		__m256i b = _mm256_loadu_si256((const __m256i *)at + 1);

		_mm256_store_si256((__m256i *)to, a);
		_mm256_store_si256((__m256i *)to + 1, b);
	}
	memcpy(to, at, size);
}

/* Before main() and any thread. */
__attribute__((constructor)) static void choose(void)
{
	__builtin_cpu_init();
	if (__builtin_cpu_supports("avx512f"))
		rd_copy_wide = copy_avx512;
	else if (__builtin_cpu_supports("avx2"))
		rd_copy_wide = copy_avx2;
}

void rd_copy_past(void *into, const void *from, size_t size)
{
	char *to = into;
	const char *at = from;
	size_t head = -(uintptr_t)to % LINE;

	if (head > size)
		head = size;
	memcpy(to, at, head);
	to += head;
	at += head;
	size -= head;
	/* Whole lines: four stores that the core gathers into one write. */
	for (; size >= LINE; size -= LINE, to += LINE, at += LINE) {
		__m128i a = _mm_loadu_si128((const __m128i *)at);
		__m128i b = _mm_loadu_si128((const __m128i *)at + 1);
		__m128i c = _mm_loadu_si128((const __m128i *)at + 2);
		__m128i d = _mm_loadu_si128((const __m128i *)at + 3);

		_mm_stream_si128((__m128i *)to, a);
		_mm_stream_si128((__m128i *)to + 1, b);
		_mm_stream_si128((__m128i *)to + 2, c);
		_mm_stream_si128((__m128i *)to + 3, d);
	}
	memcpy(to, at, size);
}

void rd_copy_past_end(void)
{
	_mm_sfence();
}
#else
void rd_copy_past(void *into, const void *from, size_t size)
{
	memcpy(into, from, size);
}

void rd_copy_past_end(void)
{
}
#endif
