/*
 * A small reader of JSON (RFC 8259), strict and bounded. A document becomes an array of values in
 * the order of the text. The values inside a value follow it, and `next` is the index past them. A
 * member of an object is a pair: its key, a STRING, and then its value.
 */
#ifndef RD_JSON_H
#define RD_JSON_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#define RD_JSON_SIZE_MAX (16 << 20)
#define RD_JSON_DEPTH_MAX 32

/* X(name, text) */
#define RD_JSON_KINDS(X) \
	X(RD_JSON_NULL, "null") \
	X(RD_JSON_FALSE, "false") \
	X(RD_JSON_TRUE, "true") \
	X(RD_JSON_NUMBER, "a number") \
	X(RD_JSON_STRING, "a string") \
	X(RD_JSON_ARRAY, "an array") \
	X(RD_JSON_OBJECT, "an object")

enum rd_json_kind {
#define RD_JSON_ENUM(name, text) name,
	RD_JSON_KINDS(RD_JSON_ENUM)
#undef RD_JSON_ENUM
};

struct rd_json_value {
	enum rd_json_kind kind;
	int line; /* where it begins, from 1 */
	int count; /* of elements, or of pairs */
	int next; /* the index past all values inside this one */
	const char *text; /* STRING: the decoded text; NUMBER: its start in the document */
};

struct rd_json {
	char *text;
	struct rd_json_value *values; /* values[0] is the document */
	int count, room;
};

/*
 * Reads one document. `name` stands for it in reasons.
 *
 * RONDO_INVALID, with a reason that names the line, where the text is not JSON or exceeds the
 * bounds above. The same for a string with a zero in it. RONDO_MEMORY without memory.
 * rd_json_finish() frees; after a failure there is nothing to free, and it may be called.
 */
int rd_json_parse(struct rd_json *json, const char *name, const char *text, size_t size);
void rd_json_finish(struct rd_json *json);

/* The kind of a value as text for a reason: "a number". */
const char *rd_json_kind_text(enum rd_json_kind kind);

/* The value of an object's member; NULL: it has none of this name, or is no object. */
const struct rd_json_value *rd_json_member(
	const struct rd_json *json, const struct rd_json_value *object, const char *name);

/* Reads a whole number. False where the value is none, or is outside least..most. */
bool rd_json_whole(const struct rd_json_value *value, int64_t least, int64_t most, int64_t *number);

/* Writes a string, quotes included; U+FFFD for each byte that is no UTF-8. */
void rd_json_write_string(FILE *out, const char *text);

#endif
