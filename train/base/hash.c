#include "train/base/hash.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/descriptor.h"
#include "train/base/fail.h"

uint64_t hash_bytes(uint64_t hash, const void *bytes, size_t size)
{
	const unsigned char *byte = bytes;
	for (size_t i = 0; i < size; i++)
		hash = (hash ^ byte[i]) * 0x100000001b3u;
	return hash;
}

/* floor(2^32 * |sin(i + 1)|) */
static const uint32_t sines[64] = {
	0xd76aa478,
	0xe8c7b756,
	0x242070db,
	0xc1bdceee,
	0xf57c0faf,
	0x4787c62a,
	0xa8304613,
	0xfd469501,
	0x698098d8,
	0x8b44f7af,
	0xffff5bb1,
	0x895cd7be,
	0x6b901122,
	0xfd987193,
	0xa679438e,
	0x49b40821,
	0xf61e2562,
	0xc040b340,
	0x265e5a51,
	0xe9b6c7aa,
	0xd62f105d,
	0x02441453,
	0xd8a1e681,
	0xe7d3fbc8,
	0x21e1cde6,
	0xc33707d6,
	0xf4d50d87,
	0x455a14ed,
	0xa9e3e905,
	0xfcefa3f8,
	0x676f02d9,
	0x8d2a4c8a,
	0xfffa3942,
	0x8771f681,
	0x6d9d6122,
	0xfde5380c,
	0xa4beea44,
	0x4bdecfa9,
	0xf6bb4b60,
	0xbebfbc70,
	0x289b7ec6,
	0xeaa127fa,
	0xd4ef3085,
	0x04881d05,
	0xd9d4d039,
	0xe6db99e5,
	0x1fa27cf8,
	0xc4ac5665,
	0xf4292244,
	0x432aff97,
	0xab9423a7,
	0xfc93a039,
	0x655b59c3,
	0x8f0ccc92,
	0xffeff47d,
	0x85845dd1,
	0x6fa87e4f,
	0xfe2ce6e0,
	0xa3014314,
	0x4e0811a1,
	0xf7537e82,
	0xbd3af235,
	0x2ad7d2bb,
	0xeb86d391,
};

static const int turns[4][4] = {
	{ 7, 12, 17, 22 },
	{ 5, 9, 14, 20 },
	{ 4, 11, 16, 23 },
	{ 6, 10, 15, 21 },
};

/* The index of the word that step i reads, and its function of the other three registers. */
static uint32_t md5_mix(int i, uint32_t b, uint32_t c, uint32_t d, int *word)
{
	switch (i / 16) {
	case 0:
		*word = i;
		return (b & c) | (~b & d);
	case 1:
		*word = (5 * i + 1) % 16;
		return (d & b) | (~d & c);
	case 2:
		*word = (3 * i + 5) % 16;
		return b ^ c ^ d;
	default:
		*word = 7 * i % 16;
		return c ^ (b | ~d);
	}
}

static void md5_block(uint32_t state[4], const unsigned char block[64])
{
	uint32_t words[16], a = state[0], b = state[1], c = state[2], d = state[3];
	for (int i = 0; i < 16; i++)
		words[i] = (uint32_t)block[4 * i] | (uint32_t)block[4 * i + 1] << 8 |
			   (uint32_t)block[4 * i + 2] << 16 | (uint32_t)block[4 * i + 3] << 24;
	for (int i = 0; i < 64; i++) {
		int word, turn = turns[i / 16][i % 4];
		uint32_t sum = a + md5_mix(i, b, c, d, &word) + sines[i];
		sum += words[word];
		a = d;
		d = c;
		c = b;
		b += sum << turn | sum >> (32 - turn);
	}
	state[0] += a;
	state[1] += b;
	state[2] += c;
	state[3] += d;
}

/* The last one or two blocks: the rest of the file, a bit, zeros, and the length in bits. */
static void md5_end(uint32_t state[4], const unsigned char *rest, size_t size, uint64_t total)
{
	unsigned char blocks[128] = { 0 };
	size_t padded = size < 56 ? 64 : 128;
	memcpy(blocks, rest, size);
	blocks[size] = 0x80;
	for (int i = 0; i < 8; i++)
		blocks[padded - 8 + i] = total * 8 >> (8 * i);
	for (size_t at = 0; at < padded; at += 64)
		md5_block(state, blocks + at);
}

int hash_md5_file(char hex[33], const char *path)
{
	FILE *file = rd_fopen(path, O_RDONLY);
	if (!file)
		return fail("%s: %s", path, strerror(errno));
	uint32_t state[4] = { 0x67452301, 0xefcdab89, 0x98badcfe, 0x10325476 };
	unsigned char block[64];
	uint64_t total = 0;
	size_t size;
	while ((size = fread(block, 1, sizeof(block), file)) == sizeof(block)) {
		md5_block(state, block);
		total += size;
	}
	int broken = ferror(file);
	fclose(file);
	if (broken)
		return fail("%s: cannot be read to its end", path);
	md5_end(state, block, size, total + size);
	for (int i = 0; i < 16; i++)
		snprintf(hex + 2 * i, 3, "%02x", state[i / 4] >> (8 * (i % 4)) & 0xff);
	return 0;
}
