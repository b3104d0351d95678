/* JSON: the array of values is a tree whose indices stay inside it. */
#include "base/json.h"
#include "fuzz.h"

static int check_value(const struct rd_json *json, int at, int depth)
{
	const struct rd_json_value *value = &json->values[at];
	int64_t number;
	int next = at + 1;

	FUZZ_CHECK(depth <= RD_JSON_DEPTH_MAX + 1);
	FUZZ_CHECK(value->next > at && value->next <= json->count && value->line >= 1);
	rd_json_whole(value, 0, 1000000, &number);
	if (value->kind == RD_JSON_ARRAY || value->kind == RD_JSON_OBJECT) {
		for (int i = 0; i < value->count; i++) {
			if (value->kind == RD_JSON_OBJECT) {
				FUZZ_CHECK(json->values[next].kind == RD_JSON_STRING);
				next = check_value(json, next, depth + 1);
			}
			next = check_value(json, next, depth + 1);
		}
	}
	FUZZ_CHECK(next == value->next);
	return next;
}

/* A string that was read, and is written, reads the same. */
static void check_strings(const struct rd_json *json)
{
	for (int i = 0; i < json->count; i++) {
		struct rd_json again;
		char *text = NULL;
		size_t size;

		if (json->values[i].kind != RD_JSON_STRING)
			continue;
		FILE *out = open_memstream(&text, &size);

		FUZZ_CHECK(out);
		rd_json_write_string(out, json->values[i].text);
		fclose(out);
		FUZZ_CHECK(rd_json_parse(&again, "again", text, size) == 0);
		FUZZ_CHECK(strcmp(again.values[0].text, json->values[i].text) == 0);
		rd_json_finish(&again);
		free(text);
	}
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct rd_json json;

	if (rd_json_parse(&json, "fuzz", (const char *)data, size))
		return 0;
	FUZZ_CHECK(check_value(&json, 0, 0) == json.count);
	check_strings(&json);
	rd_json_finish(&json);
	return 0;
}
