/* Fields on a wire: what is written is read, and nothing else is. */
#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>

#include "net/codec.h"

#define KIND 0x1234
#define TEXT 12
#define COUNT_MAX 3

/* One of each. */
struct fields {
	uint8_t u8;
	uint32_t u32;
	uint64_t u64;
	int32_t i32;
	int64_t i64;
	bool yes;
	char text[TEXT], lines[TEXT];
	uint16_t size;
	unsigned char bytes[5];
	int count;
	int32_t list[COUNT_MAX];
};

static void walk(struct rd_codec *codec, struct fields *fields)
{
	rd_codec_u8(codec, &fields->u8);
	rd_codec_u32(codec, &fields->u32);
	rd_codec_u64(codec, &fields->u64);
	rd_codec_i32(codec, &fields->i32, -7, 7);
	rd_codec_i64(codec, &fields->i64, -8, INT64_C(1) << 40);
	rd_codec_bool(codec, &fields->yes);
	rd_codec_text(codec, fields->text, sizeof(fields->text));
	rd_codec_lines(codec, fields->lines, sizeof(fields->lines));
	rd_codec_bytes(codec, fields->bytes, &fields->size, sizeof(fields->bytes));
	rd_codec_count(codec, &fields->count, COUNT_MAX);
	for (int i = 0; i < fields->count; i++)
		rd_codec_i32(codec, &fields->list[i], INT32_MIN, INT32_MAX);
}

static struct fields sample(void)
{
	return (struct fields){ .u8 = 200,
		.u32 = 0x89abcdef,
		.u64 = 0xfedcba9876543210,
		.i32 = -7,
		.i64 = INT64_C(1) << 40,
		.yes = true,
		.text = "abc",
		.lines = "a\tb\nc\n",
		.size = 5,
		.bytes = "\0\1\2\3\xff",
		.count = 3,
		.list = { -1, INT32_MIN, 5 } };
}

static size_t write_fields(struct fields *fields, unsigned char frame[256])
{
	struct rd_codec codec = rd_frame_write(frame, 256);

	walk(&codec, fields);
	return rd_frame_end(&codec, frame, KIND);
}

/* The frame is the end of a block, so that a sanitizer reports reads beyond it. */
static bool read_fields(const unsigned char *frame, size_t size, struct fields *fields)
{
	unsigned char *copy = memcpy(malloc(size), frame, size);
	unsigned kind;
	struct rd_codec codec = rd_frame_read(copy, size, &kind);

	memset(fields, 0, sizeof(*fields));
	walk(&codec, fields);
	cr_assert_eq(kind, KIND);
	free(copy);
	return rd_codec_is_done(&codec);
}

static void check_equal(const struct fields *a, const struct fields *b)
{
	cr_assert(a->u8 == b->u8 && a->u32 == b->u32 && a->u64 == b->u64);
	cr_assert(a->i32 == b->i32 && a->i64 == b->i64 && a->yes == b->yes);
	cr_assert_str_eq(a->text, b->text);
	cr_assert_str_eq(a->lines, b->lines);
	cr_assert(a->size == b->size && a->count == b->count);
	cr_assert_arr_eq(a->bytes, b->bytes, sizeof(a->bytes));
	cr_assert_arr_eq(a->list, b->list, sizeof(a->list));
}

Test(codec, reads_what_it_has_written)
{
	struct fields sent = sample(), left = sent, got;
	unsigned char frame[256];
	size_t size = write_fields(&left, frame);

	check_equal(&left, &sent);
	cr_assert_eq(rd_frame_size(frame, size), (long)size);
	cr_assert(read_fields(frame, size, &got));
	check_equal(&got, &sent);
}

Test(codec, has_fixed_bytes)
{
	static const unsigned char expected[] = { 'R', 'N', 'D', 'O', 0x34, 0x12, 16, 0, 7, 0xef,
		0xcd, 0xab, 0x89, 0xfe, 0xff, 0xff, 0xff, 1, 2, 0, 'o', 'k', 1, 0 };
	unsigned char frame[64];
	struct rd_codec codec = rd_frame_write(frame, sizeof(frame));
	uint8_t u8 = 7;
	uint32_t u32 = 0x89abcdef;
	int32_t i32 = -2;
	bool yes = true;
	char text[] = "ok";
	int count = 1;

	rd_codec_u8(&codec, &u8);
	rd_codec_u32(&codec, &u32);
	rd_codec_i32(&codec, &i32, -2, 0);
	rd_codec_bool(&codec, &yes);
	rd_codec_text(&codec, text, sizeof(text));
	rd_codec_count(&codec, &count, 9);
	yes = false;
	rd_codec_bool(&codec, &yes);
	cr_assert_eq(rd_frame_end(&codec, frame, KIND), sizeof(expected));
	cr_assert_arr_eq(frame, expected, sizeof(expected));
}

Test(codec, reads_no_fields_that_are_cut_off_or_followed_by_a_byte)
{
	struct fields fields = sample(), got;
	unsigned char frame[256] = { 0 };
	size_t size = write_fields(&fields, frame);

	for (size_t cut = RD_FRAME_HEAD; cut < size; cut++)
		cr_assert_not(read_fields(frame, cut, &got), "cut at %zu", cut);
	cr_assert_not(read_fields(frame, size + 1, &got));
}

/* Writes a field with a value, and returns whether it is read. */
#define ACCEPTS(type, value, walks) \
	({ \
		unsigned char frame_[256]; \
		struct rd_codec codec_ = rd_frame_write(frame_, sizeof(frame_)), *codec = &codec_; \
		type got = value; \
		unsigned kind_; \
		walks; \
		codec_ = rd_frame_read(frame_, rd_frame_end(codec, frame_, KIND), &kind_); \
		got = 1; \
		walks; \
		/* A value out of range is not stored. */ \
		cr_assert_eq(got, codec_.bad ? 1 : (value)); \
		rd_codec_is_done(codec); \
	})

Test(codec, accepts_the_values_of_a_range_alone)
{
	cr_assert(ACCEPTS(int32_t, -3, rd_codec_i32(codec, &got, -3, 5)));
	cr_assert(ACCEPTS(int32_t, 5, rd_codec_i32(codec, &got, -3, 5)));
	cr_assert_not(ACCEPTS(int32_t, -4, rd_codec_i32(codec, &got, -3, 5)));
	cr_assert_not(ACCEPTS(int32_t, 6, rd_codec_i32(codec, &got, -3, 5)));
	cr_assert_not(ACCEPTS(int32_t, INT32_MIN, rd_codec_i32(codec, &got, 0, INT32_MAX)));
	cr_assert(ACCEPTS(int64_t, -3, rd_codec_i64(codec, &got, -3, 5)));
	cr_assert_not(ACCEPTS(int64_t, -4, rd_codec_i64(codec, &got, -3, 5)));
	cr_assert_not(ACCEPTS(int64_t, 6, rd_codec_i64(codec, &got, -3, 5)));
	cr_assert_not(ACCEPTS(int64_t, INT64_MIN, rd_codec_i64(codec, &got, 0, INT64_MAX)));
	cr_assert(ACCEPTS(int, 0, rd_codec_count(codec, &got, 2)));
	cr_assert(ACCEPTS(int, 2, rd_codec_count(codec, &got, 2)));
	cr_assert_not(ACCEPTS(int, 3, rd_codec_count(codec, &got, 2)));
	cr_assert(ACCEPTS(uint32_t, 3, rd_codec_u32(codec, &got); rd_codec_check(codec, got < 4)));
}

Test(codec, accepts_no_other_bool_than_0_and_1)
{
	unsigned char frame[] = { 'R', 'N', 'D', 'O', 1, 0, 1, 0, 2 };
	unsigned kind;
	struct rd_codec codec = rd_frame_read(frame, sizeof(frame), &kind);
	bool yes = false;

	rd_codec_bool(&codec, &yes);
	cr_assert_not(rd_codec_is_done(&codec));
}

Test(codec, refuses_what_a_check_does_not_hold_of)
{
	unsigned char frame[256];
	struct rd_codec codec = rd_frame_write(frame, sizeof(frame));
	uint32_t value = 4;
	unsigned kind;

	rd_codec_u32(&codec, &value);
	rd_codec_check(&codec, value < 4);
	codec = rd_frame_read(frame, rd_frame_end(&codec, frame, KIND), &kind);
	rd_codec_u32(&codec, &value);
	rd_codec_check(&codec, value < 5);
	cr_assert(rd_codec_is_done(&codec));
	rd_codec_check(&codec, value < 4);
	cr_assert_not(rd_codec_is_done(&codec));
}

/* A text on its way: from a field of one size to one of another. */
static bool carry(const char *text, size_t written, char *got, size_t size, bool lines)
{
	unsigned char frame[256];
	struct rd_codec codec = rd_frame_write(frame, sizeof(frame));
	char copy[100];
	unsigned kind;

	strcpy(copy, text);
	rd_codec_text(&codec, copy, written);
	codec = rd_frame_read(frame, rd_frame_end(&codec, frame, KIND), &kind);
	if (lines)
		rd_codec_lines(&codec, got, size);
	else
		rd_codec_text(&codec, got, size);
	return rd_codec_is_done(&codec);
}

Test(codec, texts_are_disarmed_by_their_reader)
{
	char got[100];

	cr_assert(carry("a\033[2Jb\nc\td\177 \303\251\303", 100, got, 100, false));
	cr_assert_str_eq(got, "a?[2Jb?c?d? \303\251?");
	cr_assert(carry("\nb\033\nc\td\n\303\n\251", 100, got, 100, true));
	cr_assert_str_eq(got, "\nb?\nc\td\n?\n?");
}

Test(codec, a_text_with_a_nul_has_none_at_its_reader)
{
	unsigned char frame[] = { 'R', 'N', 'D', 'O', 1, 0, 5, 0, 3, 0, 'a', 0, 'b' };
	unsigned kind;
	struct rd_codec codec = rd_frame_read(frame, sizeof(frame), &kind);
	char text[4];

	rd_codec_text(&codec, text, sizeof(text));
	cr_assert(rd_codec_is_done(&codec));
	cr_assert_str_eq(text, "a?b");
}

Test(codec, texts_are_cut_by_their_writer_and_bounded_by_their_reader)
{
	char got[8] = "";

	cr_assert(carry("12345678901", 8, got, 8, false));
	cr_assert_str_eq(got, "1234567");
	cr_assert_not(carry("12345678", 100, got, 8, false));
	cr_assert_str_eq(got, "");
}

Test(codec, bytes_are_bounded_by_their_reader)
{
	unsigned char frame[256], bytes[6] = "abcdef", got[5];
	struct rd_codec codec = rd_frame_write(frame, sizeof(frame));
	uint16_t size = sizeof(bytes);
	unsigned kind;

	rd_codec_bytes(&codec, bytes, &size, sizeof(bytes));
	codec = rd_frame_read(frame, rd_frame_end(&codec, frame, KIND), &kind);
	rd_codec_bytes(&codec, got, &size, sizeof(got));
	cr_assert_not(rd_codec_is_done(&codec));
	cr_assert_eq(size, 0);
}

Test(codec, skips_the_rest_where_the_protocol_does)
{
	struct fields fields = sample();
	unsigned char frame[256];
	size_t size = write_fields(&fields, frame);
	unsigned kind;
	struct rd_codec codec = rd_frame_read(frame, size, &kind);

	rd_codec_u8(&codec, &fields.u8);
	cr_assert_not(rd_codec_is_done(&codec));
	rd_codec_skip_rest(&codec);
	cr_assert(rd_codec_is_done(&codec));
}

Test(codec, a_frame_is_cut_out_once_it_is_whole)
{
	struct fields fields = sample();
	unsigned char frame[256] = { 0 };
	size_t size = write_fields(&fields, frame);

	for (size_t cut = 0; cut < size; cut++)
		cr_assert_eq(rd_frame_size(frame, cut),
			cut < RD_FRAME_HEAD ? RD_FRAME_HEAD : (long)size, "cut at %zu", cut);
	cr_assert_eq(rd_frame_size(frame, sizeof(frame)), (long)size);
}

Test(codec, another_protocol_is_refused_at_its_first_byte)
{
	cr_assert_eq(rd_frame_size((const unsigned char *)"GET /", 1), -1);
	cr_assert_eq(rd_frame_size((const unsigned char *)"RND", 3), RD_FRAME_HEAD);
	cr_assert_eq(rd_frame_size((const unsigned char *)"RNDP", 4), -1);
}
