/* Records of TLS 1.3: against the trace of RFC 8448, and what a peer may send. */
#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>

#include "rondo.h"
#include "secure/records.h"
#include "secure/tls.h"

/* The client's traffic secret and record of RFC 8448, 3, which has the bytes 0 to 49. */
static const unsigned char secret[] =
	"\x9e\x40\x64\x6c\xe7\x9a\x7f\x9d\xc0\x5a\xf8\x88\x9b\xce\x65\x52"
	"\x87\x5a\xfa\x0b\x06\xdf\x00\x87\xf7\x92\xeb\xb7\xc1\x75\x04\xa5";
static const unsigned char record[] =
	"\x17\x03\x03\x00\x43\xa2\x3f\x70\x54\xb6\x2c\x94\xd0\xaf\xfa\xfe"
	"\x82\x28\xba\x55\xcb\xef\xac\xea\x42\xf9\x14\xaa\x66\xbc\xab\x3f"
	"\x2b\x98\x19\xa8\xa5\xb4\x6b\x39\x5b\xd5\x4a\x9a\x20\x44\x1e\x2b"
	"\x62\x97\x4e\x1f\x5a\x62\x92\xa2\x97\x70\x14\xbd\x1e\x3d\xea\xe6"
	"\x3a\xee\xbb\x21\x69\x49\x15\xe4";

enum { CONTENT = 50, RECORD = CONTENT + RD_RECORD_OVERHEAD };

static struct rd_records *sealed, *opened;
static unsigned char content[RD_RECORD_CONTENT_MAX];

static void make(void)
{
	if (rd_tls_load())
		cr_skip("%s", rondo_last_error());
	sealed = rd_records_create(secret, true);
	opened = rd_records_create(secret, false);
	cr_assert(sealed && opened);
	for (size_t i = 0; i < sizeof(content); i++)
		content[i] = (unsigned char)i;
}

static void destroy(void)
{
	rd_records_destroy(sealed);
	rd_records_destroy(opened);
}

TestSuite(records, .init = make, .fini = destroy, .timeout = 60);

Test(records, are_those_of_rfc_8448)
{
	unsigned char got[RECORD];
	size_t size;

	cr_assert(rd_records_seal(sealed, RD_RECORD_DATA, content, CONTENT, got));
	cr_expect_arr_eq(got, record, RECORD);
	cr_expect_eq(rd_record_size(record), RECORD);
	cr_expect_eq(rd_record_content_size(record), CONTENT);
	memset(got, 0, sizeof(got));
	cr_assert_eq(rd_records_open(opened, record, got, &size), RD_RECORD_DATA);
	cr_expect_eq(size, CONTENT);
	cr_expect_arr_eq(got, content, CONTENT);
}

/* Seals a record, and opens it in place. */
static void exchange(enum rd_record_type type, size_t size)
{
	unsigned char *moved = malloc(size + RD_RECORD_OVERHEAD);
	size_t got;

	cr_assert(rd_records_seal(sealed, type, content, size, moved));
	cr_assert_eq(rd_record_size(moved), size + RD_RECORD_OVERHEAD);
	cr_assert_eq(rd_records_open(opened, moved, moved + RD_RECORD_HEADER, &got), (int)type);
	cr_assert_eq(got, size);
	cr_assert_eq(memcmp(moved + RD_RECORD_HEADER, content, size), 0);
	free(moved);
}

Test(records, of_each_size_and_type_open_in_their_order)
{
	for (size_t size = 0; size < 100; size++)
		exchange(RD_RECORD_DATA, size);
	exchange(RD_RECORD_HANDSHAKE, 5);
	exchange(RD_RECORD_ALERT, 2);
	for (size_t size = RD_RECORD_CONTENT_MAX - 20; size <= RD_RECORD_CONTENT_MAX; size++)
		exchange(RD_RECORD_DATA, size);
}

/* Each end has the next key, and counts from 0 again. */
Test(records, go_on_after_an_update_of_both_ends_alone)
{
	unsigned char first[RECORD], next[RECORD];
	size_t size;

	exchange(RD_RECORD_DATA, CONTENT);
	cr_assert(rd_records_update(sealed));
	cr_assert(rd_records_update(opened));
	exchange(RD_RECORD_DATA, CONTENT);
	destroy();
	make();
	cr_assert(rd_records_seal(sealed, RD_RECORD_DATA, content, CONTENT, first));
	cr_assert(rd_records_update(sealed));
	cr_assert(rd_records_seal(sealed, RD_RECORD_DATA, content, CONTENT, next));
	cr_expect_neq(memcmp(first, next, RECORD), 0);
	cr_expect_eq(rd_records_open(opened, next, next + RD_RECORD_HEADER, &size), -1);
}

Test(records, that_are_changed_repeated_or_left_out_do_not_open)
{
	unsigned char changed[RECORD];
	size_t size;

	for (size_t at = 0; at < RECORD; at++) {
		memcpy(changed, record, RECORD);
		changed[at] ^= 1;
		/* With another type or length it is no such record. */
		if (rd_record_size(changed) == RECORD)
			cr_expect_eq(
				rd_records_open(opened, changed, changed + RD_RECORD_HEADER, &size),
				-1, "byte %zu", at);
		rd_records_destroy(opened);
		opened = rd_records_create(secret, false);
	}
	cr_assert_eq(rd_records_open(opened, record, changed, &size), RD_RECORD_DATA);
	cr_expect_eq(rd_records_open(opened, record, changed, &size), -1);
	rd_records_destroy(opened);
	opened = rd_records_create(secret, false);
	cr_assert(rd_records_seal(sealed, RD_RECORD_DATA, content, CONTENT, changed));
	cr_assert(rd_records_seal(sealed, RD_RECORD_DATA, content, CONTENT, changed));
	cr_expect_eq(rd_records_open(opened, changed, changed + RD_RECORD_HEADER, &size), -1);
}

/* Padding is zeros behind the type, which is then the last other byte. Sealed content that ends so
   looks like it: a type that RFC 8446 does not know is the content's last byte. */
Test(records, lose_their_padding)
{
	static const unsigned char padded[] = { 'a', 'b', RD_RECORD_DATA, 0, 0, 0 };
	unsigned char moved[sizeof(padded) + RD_RECORD_OVERHEAD];
	size_t size;

	cr_assert(rd_records_seal(sealed, 0, padded, sizeof(padded), moved));
	cr_expect_eq(
		rd_records_open(opened, moved, moved + RD_RECORD_HEADER, &size), RD_RECORD_DATA);
	cr_expect_eq(size, 2);
	cr_expect_arr_eq(moved + RD_RECORD_HEADER, "ab", 2);
	cr_assert(rd_records_seal(sealed, 0, padded + 3, 3, moved));
	cr_expect_eq(rd_records_open(opened, moved, moved + RD_RECORD_HEADER, &size), 0);
}

Test(records, have_bounds)
{
	static const struct {
		unsigned char header[RD_RECORD_HEADER];
		size_t size;
	} cases[] = {
		{ { 23, 3, 3, 0, 16 }, 0 }, /* no type */
		{ { 23, 3, 3, 0, 17 }, 22 },
		{ { 23, 3, 3, 0x41, 0x00 }, RD_RECORD_MAX },
		{ { 23, 3, 3, 0x41, 0x01 }, 0 },
		{ { 23, 3, 3, 0xff, 0xff }, 0 },
		{ { 22, 3, 3, 0, 17 }, 0 }, /* of the handshake */
		{ { 20, 3, 3, 0, 1 }, 0 },
		{ { 0, 0, 0, 0, 0 }, 0 },
	};

	for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++)
		cr_expect_eq(rd_record_size(cases[i].header), cases[i].size, "case %zu", i);
}
