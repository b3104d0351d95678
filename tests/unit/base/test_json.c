#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/json.h"

static int parse(struct rd_json *json, const char *text)
{
	return rd_json_parse(json, "text", text, strlen(text));
}

static bool is_json(const char *text)
{
	struct rd_json json;
	int err = parse(&json, text);

	rd_json_finish(&json);
	return err == 0;
}

Test(json, values_come_in_the_order_of_the_text)
{
	struct rd_json json;
	int64_t number;

	cr_assert_eq(parse(&json, " {\"a\": [1, -20],\n \"b\": {\"c\": null}, \"d\": true}\n"), 0);
	const struct rd_json_value *values = json.values;
	cr_assert_eq(json.count, 11);
	cr_assert_eq(values[0].kind, RD_JSON_OBJECT);
	cr_assert_eq(values[0].count, 3);
	cr_assert_eq(values[0].next, 11);
	cr_assert_str_eq(values[1].text, "a");
	cr_assert_eq(values[2].kind, RD_JSON_ARRAY);
	cr_assert_eq(values[2].count, 2);
	cr_assert_eq(values[2].next, 5);
	cr_assert(rd_json_whole(&values[4], -20, 0, &number));
	cr_assert_eq(number, -20);
	cr_assert_str_eq(values[5].text, "b");
	cr_assert_eq(values[5].line, 2);
	cr_assert_eq(values[6].next, 9);
	cr_assert_eq(values[10].kind, RD_JSON_TRUE);
	rd_json_finish(&json);
}

Test(json, strings_are_decoded)
{
	struct rd_json json;

	cr_assert_eq(
		parse(&json, "\"a\\\"\\\\\\/\\n\\u0041\\u00e4\\u20AC\\uD83D\\uDE00\xc3\xa4\""), 0);
	cr_assert_str_eq(
		json.values[0].text, "a\"\\/\nA\xc3\xa4\xe2\x82\xac\xf0\x9f\x98\x80\xc3\xa4");
	rd_json_finish(&json);
}

Test(json, what_is_json_is_read)
{
	static const char *const texts[] = { "0", "-0", "1.5e-3", "[]", "{}", "[[], {}]", "\"\"",
		"[1,2]", "\t\r\n null ", "{\"\": 0}", "1E+9" };

	for (size_t i = 0; i < sizeof(texts) / sizeof(*texts); i++)
		cr_assert(is_json(texts[i]), "%s: %s", texts[i], rondo_last_error());
}

Test(json, what_is_none_is_refused)
{
	static const char *const texts[] = { "", " ", "[", "]", "[1,]", "[,1]", "[1 2]", "{\"a\"}",
		"{\"a\":}", "{a: 1}", "{\"a\": 1,}", "{1: 1}", "01", "1.", ".5", "+1", "-", "1e",
		"nul", "nulls", "True", "'a'", "\"a", "\"a\nb\"", "\"\\x\"", "\"\\u12\"",
		"\"\\u0000\"", "\"\\uD83D\"", "\"\\uDE00\"", "\"\\uD83D\\u0041\"", "\"\xff\"",
		"\"\xc0\x80\"", "\"\xed\xa0\x80\"", "\"\xe2\x82\"", "1 2", "[]]", "/**/1", "\x01" };

	for (size_t i = 0; i < sizeof(texts) / sizeof(*texts); i++) {
		rd_fail(0, "%s", "");
		cr_assert_not(is_json(texts[i]), "%s", texts[i]);
		cr_assert(!strncmp(rondo_last_error(), "text:", 5), "%s", rondo_last_error());
	}
}

Test(json, a_zero_inside_is_refused)
{
	struct rd_json json;

	cr_assert_eq(rd_json_parse(&json, "text", "1\0 ", 3), RONDO_INVALID);
	cr_assert_eq(rd_json_parse(&json, "text", "\"a\0\"", 4), RONDO_INVALID);
	cr_assert_eq(rd_json_parse(&json, "text", "1\n", 2), 0);
	rd_json_finish(&json);
}

Test(json, depth_is_bounded)
{
	char text[2 * RD_JSON_DEPTH_MAX + 3] = "";
	int most = RD_JSON_DEPTH_MAX;

	memset(text, '[', (size_t)most);
	memset(text + most, ']', (size_t)most);
	cr_assert(is_json(text));
	memset(text, '[', (size_t)most + 1);
	memset(text + most + 1, ']', (size_t)most + 1);
	cr_assert_not(is_json(text));
	cr_assert(strstr(rondo_last_error(), "deep"));
}

Test(json, the_line_of_an_error_is_reported)
{
	cr_assert_not(is_json("{\n\"a\":\n x}"));
	cr_assert(!strncmp(rondo_last_error(), "text:3: ", 8), "%s", rondo_last_error());
}

Test(json, whole_numbers_have_bounds)
{
	static const struct {
		const char *text;
		bool good;
	} cases[] = { { "0", true }, { "9", true }, { "10", false }, { "-1", false },
		{ "1.0", false }, { "1e0", false }, { "99999999999999999999", false },
		{ "\"1\"", false }, { "true", false } };

	for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
		struct rd_json json;
		int64_t number;
		cr_assert_eq(parse(&json, cases[i].text), 0);
		cr_assert_eq(rd_json_whole(json.values, 0, 9, &number), cases[i].good, "%s",
			cases[i].text);
		rd_json_finish(&json);
	}
}

static void expect_read_back(const char *text, const char *expected)
{
	char *written = NULL;
	size_t size;
	struct rd_json json;
	FILE *out = open_memstream(&written, &size);

	rd_json_write_string(out, text);
	fclose(out);
	cr_assert_eq(parse(&json, written), 0, "%s", rondo_last_error());
	cr_assert_str_eq(json.values[0].text, expected);
	rd_json_finish(&json);
	free(written);
}

Test(json, what_is_written_is_read_back)
{
	static const char text[] = "quote \" slash \\ tab \t and \x7f \xc3\xa4";

	expect_read_back(text, text);
	expect_read_back("\xff a \xc3", "\xef\xbf\xbd a \xef\xbf\xbd"); /* no UTF-8 */
}
