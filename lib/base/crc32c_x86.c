#include "base/crc32c_x86.h"

#if defined(__x86_64__)

#include <immintrin.h>
#include <string.h>

#define SSE42 __attribute__((target("sse4.2,pclmul")))
#define AVX512 __attribute__((target("sse4.2,pclmul,avx512f,vpclmulqdq")))

/*
 * A register holds a polynomial over GF(2) in reverse: its lowest bit is the highest power. A byte
 * that lies D bytes before another counts x^(8 D) times as much, modulo the CRC's polynomial P.
 *
 * A carry-less product of a constant of 32 bits, in reverse, and a register of 32 or 64 bits holds
 * their product times x or x^33. A product of 64 bits goes through `crc32`, which multiplies it by
 * x^32. So the constant that moves a register by D bytes is x^(8 D - 33) mod P in both cases. For
 * the first half of 16 bytes it is x^(8 D + 31) mod P. tests/unit/base/test_crc32c.c computes them.
 */
#define LONG 2048 /* bytes of one of three streams */
#define SHORT 256 /* the same, for the rest and for short messages */
#define BY_LONG 0xa51b6135
#define BY_LONG_TWICE 0x82f89c77
#define BY_SHORT 0xb9e02b86
#define BY_SHORT_TWICE 0xdd7e3b0c
#define BY_64 0x9e4addf8
#define FIRST_HALF_BY_64 0x740eef02
#define BY_256 0xb9e02b86
#define FIRST_HALF_BY_256 0xdcb17aa4

static inline uint64_t load(const unsigned char *at)
{
	uint64_t value;

	memcpy(&value, at, sizeof(value));
	return value;
}

SSE42 static inline uint64_t product(uint64_t crc, uint64_t constant)
{
	__m128i both = _mm_clmulepi64_si128(
		_mm_cvtsi64_si128((long long)crc), _mm_cvtsi64_si128((long long)constant), 0);

	return (uint64_t)_mm_cvtsi128_si64(both);
}

/* Three streams of `size` bytes each, one behind the other. */
SSE42 static inline uint64_t three_streams(
	uint64_t crc, const unsigned char *at, size_t size, uint64_t by_one, uint64_t by_two)
{
	uint64_t second = 0, third = 0;

	for (size_t i = 0; i < size; i += 8) {
		crc = _mm_crc32_u64(crc, load(at + i));
		second = _mm_crc32_u64(second, load(at + size + i));
		third = _mm_crc32_u64(third, load(at + 2 * size + i));
	}
	return _mm_crc32_u64(0, product(crc, by_two) ^ product(second, by_one)) ^ third;
}

SSE42 uint32_t rd_crc32c_sse42(uint32_t start, const void *bytes, size_t size)
{
	const unsigned char *at = bytes;
	uint64_t crc = start;

	for (; size >= 3 * LONG; at += 3 * LONG, size -= 3 * LONG)
		crc = three_streams(crc, at, LONG, BY_LONG, BY_LONG_TWICE);
	for (; size >= 3 * SHORT; at += 3 * SHORT, size -= 3 * SHORT)
		crc = three_streams(crc, at, SHORT, BY_SHORT, BY_SHORT_TWICE);
	for (; size >= 8; at += 8, size -= 8)
		crc = _mm_crc32_u64(crc, load(at));
	for (; size > 0; at++, size--)
		crc = _mm_crc32_u8((uint32_t)crc, *at);
	return (uint32_t)crc;
}

/* Moves each 16 bytes of `sum` by the distance of the constants, and adds what lies there. */
AVX512 static inline __m512i fold(__m512i sum, __m512i constants, __m512i next)
{
	/* 0x96: the exclusive or of all three. */
	return _mm512_ternarylogic_epi64(_mm512_clmulepi64_epi128(sum, constants, 0x00),
		_mm512_clmulepi64_epi128(sum, constants, 0x11), next, 0x96);
}

AVX512 static inline __m512i constants_of(long long first_half, long long second_half)
{
	return _mm512_set_epi64(second_half, first_half, second_half, first_half, second_half,
		first_half, second_half, first_half);
}

AVX512 uint32_t rd_crc32c_avx512(uint32_t crc, const void *bytes, size_t size)
{
	const unsigned char *at = bytes;
	const __m512i by_256 = constants_of(FIRST_HALF_BY_256, BY_256);
	const __m512i by_64 = constants_of(FIRST_HALF_BY_64, BY_64);
	unsigned char last[64];
	__m512i sums[4];

	if (size < 512)
		return rd_crc32c_sse42(crc, bytes, size);
	for (int i = 0; i < 4; i++)
		sums[i] = _mm512_loadu_si512(at + 64 * i);
	sums[0] = _mm512_xor_si512(sums[0], _mm512_zextsi128_si512(_mm_cvtsi32_si128((int)crc)));
	for (at += 256, size -= 256; size >= 256; at += 256, size -= 256)
		for (int i = 0; i < 4; i++)
			sums[i] = fold(sums[i], by_256, _mm512_loadu_si512(at + 64 * i));
	for (int i = 1; i < 4; i++)
		sums[i] = fold(sums[i - 1], by_64, sums[i]);
	_mm512_storeu_si512(last, sums[3]);
	/* These 64 bytes have the remainder of all bytes before `at`. */
	return rd_crc32c_sse42(rd_crc32c_sse42(0, last, sizeof(last)), at, size);
}

#endif
