#include "base/crc32c.h"

#include <string.h>

#include "base/crc32c_x86.h"
#include "base/instructions.h"

#define POLYNOMIAL 0x82f63b78u /* its bits in reverse, as the register has them */

/* table[n][byte]: the register after that byte and n bytes 0, where it was 0 before. */
static uint32_t table[8][256];

static void fill_table(void)
{
	for (uint32_t byte = 0; byte < 256; byte++) {
		uint32_t crc = byte;

		for (int bit = 0; bit < 8; bit++)
			crc = crc >> 1 ^ (crc & 1 ? POLYNOMIAL : 0);
		table[0][byte] = crc;
	}
	for (int n = 1; n < 8; n++)
		for (int byte = 0; byte < 256; byte++)
			table[n][byte] =
				table[n - 1][byte] >> 8 ^ table[0][table[n - 1][byte] & 0xff];
}

/* The same for eight bytes at once. */
static uint32_t eight(uint32_t crc, const unsigned char *at)
{
	uint32_t sum = 0;

	for (int i = 0; i < 8; i++) {
		unsigned byte = at[i];

		if (i < 4)
			byte ^= crc >> 8 * i & 0xff;
		sum ^= table[7 - i][byte];
	}
	return sum;
}

static uint32_t plain(uint32_t crc, const void *bytes, size_t size)
{
	const unsigned char *at = bytes;

	for (; size >= 8; at += 8, size -= 8)
		crc = eight(crc, at);
	for (; size > 0; at++, size--)
		crc = crc >> 8 ^ table[0][(crc ^ *at) & 0xff];
	return crc;
}

/* The best first. */
static const struct {
	const char *instructions;
	rd_crc32c_function *function;
	enum rd_instructions needs;
} variants[] = {
#if defined(__x86_64__)
	{ "avx512", rd_crc32c_avx512, RD_VPCLMUL },
	{ "sse4.2", rd_crc32c_sse42, RD_SSE42 },
#endif
	{ "plain", plain, RD_PLAIN },
};

#define VARIANT_COUNT (sizeof(variants) / sizeof(variants[0]))

static rd_crc32c_function *chosen = plain;

/* Before main() and any thread. */
__attribute__((constructor)) static void choose(void)
{
	fill_table();
	for (size_t i = VARIANT_COUNT; i-- > 0;)
		if (rd_has_instructions(variants[i].needs))
			chosen = variants[i].function;
}

uint32_t rd_crc32c(uint32_t crc, const void *bytes, size_t size)
{
	return ~chosen(~crc, bytes, size);
}

rd_crc32c_function *rd_crc32c_variant(const char *instructions)
{
	for (size_t i = 0; i < VARIANT_COUNT; i++)
		if (!strcmp(variants[i].instructions, instructions) &&
			rd_has_instructions(variants[i].needs))
			return variants[i].function;
	return NULL;
}
