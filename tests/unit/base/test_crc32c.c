/* ctest label: instructions */
#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>

#include "base/crc32c.h"

#define LONGEST 70000

/* A bit at a time, as RFC 3720 describes it. */
static uint32_t bitwise(uint32_t crc, const unsigned char *bytes, size_t size)
{
	crc = ~crc;
	for (size_t i = 0; i < size; i++) {
		crc ^= bytes[i];
		for (int bit = 0; bit < 8; bit++)
			crc = crc >> 1 ^ (crc & 1 ? 0x82f63b78u : 0);
	}
	return ~crc;
}

static unsigned char *random_bytes(size_t size)
{
	unsigned char *bytes = malloc(size);
	uint32_t state = 1;

	for (size_t i = 0; i < size; i++) {
		state = state * 1664525 + 1013904223;
		bytes[i] = (unsigned char)(state >> 24);
	}
	return bytes;
}

/* Calls with each variant that runs here. */
static void each_variant(void (*check)(rd_crc32c_function *variant, const char *name))
{
	static const char *const names[] = { "avx512", "sse4.2", "plain" };

	for (int i = 0; i < 3; i++)
		if (rd_crc32c_variant(names[i]))
			check(rd_crc32c_variant(names[i]), names[i]);
	cr_assert_null(rd_crc32c_variant("none"));
	cr_assert_not_null(rd_crc32c_variant("plain"));
}

/* Variants work on the register, which is inverted. */
static void expect(rd_crc32c_function *variant, const char *name, uint32_t crc,
	const unsigned char *bytes, size_t size, uint32_t expected)
{
	cr_assert_eq(~variant(~crc, bytes, size), expected, "%s: %zu bytes", name, size);
}

Test(crc32c, has_the_values_of_rfc_3720)
{
	unsigned char bytes[32];

	cr_assert_eq(rd_crc32c(0, "123456789", 9), 0xe3069283u);
	memset(bytes, 0, sizeof(bytes));
	cr_assert_eq(rd_crc32c(0, bytes, sizeof(bytes)), 0x8a9136aau);
	memset(bytes, 0xff, sizeof(bytes));
	cr_assert_eq(rd_crc32c(0, bytes, sizeof(bytes)), 0x62a8ab43u);
	for (int i = 0; i < 32; i++)
		bytes[i] = (unsigned char)i;
	cr_assert_eq(rd_crc32c(0, bytes, sizeof(bytes)), 0x46dd794eu);
}

static void check_lengths(rd_crc32c_function *variant, const char *name)
{
	unsigned char *bytes = random_bytes(LONGEST + 64);

	for (size_t size = 0; size <= 300; size++)
		for (size_t offset = 0; offset < 16; offset++)
			expect(variant, name, 0, bytes + offset, size,
				bitwise(0, bytes + offset, size));
	/* Around each length at which a loop begins. */
	for (size_t size = 301; size <= LONGEST; size += size < 2000 ? 1 : 997)
		expect(variant, name, (uint32_t)size, bytes + size % 64, size,
			bitwise((uint32_t)size, bytes + size % 64, size));
	for (size_t size = 3 * 2048 - 9; size <= 3 * 2048 + 9; size++)
		expect(variant, name, 7, bytes, size, bitwise(7, bytes, size));
	free(bytes);
}

Test(crc32c, is_the_bitwise_one_at_all_lengths_and_alignments, .timeout = 60)
{
	each_variant(check_lengths);
}

static void check_splits(rd_crc32c_function *variant, const char *name)
{
	unsigned char *bytes = random_bytes(20000);
	uint32_t whole = bitwise(0, bytes, 20000);

	for (size_t cut = 0; cut <= 20000; cut += cut < 600 ? 1 : 397)
		expect(variant, name, ~variant(~0u, bytes, cut), bytes + cut, 20000 - cut, whole);
	free(bytes);
}

Test(crc32c, may_be_computed_in_parts, .timeout = 60)
{
	each_variant(check_splits);
}

Test(crc32c, differs_for_each_flipped_bit)
{
	unsigned char *bytes = random_bytes(5000);
	uint32_t right = rd_crc32c(0, bytes, 5000);

	for (size_t bit = 0; bit < 8 * 5000; bit++) {
		bytes[bit / 8] ^= (unsigned char)(1 << bit % 8);
		cr_assert_neq(rd_crc32c(0, bytes, 5000), right, "bit %zu", bit);
		bytes[bit / 8] ^= (unsigned char)(1 << bit % 8);
	}
	free(bytes);
}
