#include <criterion/criterion.h>
#include <string.h>

#include "train/base/fail.h"
#include "train/base/hash.h"
#include "train/scratch.h"

TestSuite(hash, .init = scratch_make, .fini = scratch_remove);

static void expect_md5(const char *bytes, size_t size, const char *md5)
{
	char hex[33];
	scratch_write("file", bytes, size);
	cr_assert_eq(hash_md5_file(hex, scratch_path("file")), 0, "%s", failure());
	cr_assert_str_eq(hex, md5);
}

Test(hash, md5_is_that_of_rfc_1321)
{
	const char *alphabet = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789";
	const char *number =
		"12345678901234567890123456789012345678901234567890123456789012345678901"
		"234567890";
	expect_md5("", 0, "d41d8cd98f00b204e9800998ecf8427e");
	expect_md5("a", 1, "0cc175b9c0f1b6a831c399e269772661");
	expect_md5("message digest", 14, "f96b697d7cb7938d525a2f31aaf161d0");
	expect_md5(alphabet, strlen(alphabet), "d174ab98d277d9f5a5611c2c9f419d9f");
	expect_md5(number, strlen(number), "57edf4a22be3c955ac49da2e2107b67a");
}

Test(hash, md5_is_right_around_the_edge_of_a_block)
{
	char zeros[65] = { 0 };
	expect_md5(zeros, 55, "c9ea3314b91c9fd4e38f9432064fd1f2");
	expect_md5(zeros, 56, "e3c4dd21a9171fd39d208efa09bf7883");
	expect_md5(zeros, 64, "3b5d3c7d207e37dceeedd301e35e2e58");
	expect_md5(zeros, 65, "1ef5e829303a139ce967440e0cdca10c");
}

Test(hash, a_file_that_is_not_there_is_a_failure)
{
	char hex[33];
	cr_assert_neq(hash_md5_file(hex, scratch_path("nothing")), 0);
	cr_assert(strstr(failure(), "nothing"));
}

Test(hash, fnv_is_that_of_its_authors)
{
	cr_assert_eq(hash_bytes(HASH_START, "", 0), 0xcbf29ce484222325u);
	cr_assert_eq(hash_bytes(HASH_START, "a", 1), 0xaf63dc4c8601ec8cu);
	cr_assert_eq(hash_bytes(HASH_START, "foobar", 6), 0x85944171f73967e8u);
	cr_assert_eq(hash_bytes(hash_bytes(HASH_START, "foo", 3), "bar", 3), 0x85944171f73967e8u);
}
