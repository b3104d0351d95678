#include "exec/copy.h"

#include <stdint.h>
#include <string.h>

#if defined(__x86_64__)
#include <emmintrin.h>

#define LINE 64

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
