#include "base/json.h"

#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/grow.h"
#include "base/utf8.h"

struct reader {
	struct rd_json *json;
	const char *name;
	char *at, *end; /* *end is 0, and no accepted text has a zero before it */
	int line;
};

static int refuse(const struct reader *reader, const char *reason)
{
	return rd_fail(RONDO_INVALID, "%s:%d: %s", reader->name, reader->line, reason);
}

const char *rd_json_kind_text(enum rd_json_kind kind)
{
	static const char *const texts[] = {
#define KIND_TEXT(name, text) text,
		RD_JSON_KINDS(KIND_TEXT)
#undef KIND_TEXT
	};

	return texts[kind];
}

static void skip_blanks(struct reader *reader)
{
	for (;; reader->at++) {
		if (*reader->at == '\n')
			reader->line++;
		else if (*reader->at != ' ' && *reader->at != '\t' && *reader->at != '\r')
			return;
	}
}

/* Appends a value that begins here; -1 with a reason. */
static int add_value(struct reader *reader, enum rd_json_kind kind)
{
	struct rd_json *json = reader->json;

	if (!rd_grow(&json->values, json->count, &json->room, sizeof(*json->values))) {
		rd_fail(RONDO_MEMORY, "no memory to read %s", reader->name);
		return -1;
	}
	json->values[json->count] = (struct rd_json_value){
		.kind = kind, .line = reader->line, .next = json->count + 1
	};
	return json->count++;
}

/* ---- Strings. Decoded in place: an escape is at least as long as its character. ---- */

static int hex_digit(char c)
{
	if (c >= '0' && c <= '9')
		return c - '0';
	c |= 0x20;
	return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

/* Reads the four digits of \uXXXX; -1 for other text. */
static int32_t read_unit(char **at)
{
	int32_t unit = 0;

	for (int i = 0; i < 4; i++, ++*at) {
		int digit = hex_digit(**at);
		if (digit < 0)
			return -1;
		unit = unit << 4 | digit;
	}
	return unit;
}

/*
 * Reads a character. Beyond 16 bits it is two units, the high surrogate first; -1 for half of a
 * pair.
 */
static int32_t read_escaped_point(char **at)
{
	int32_t high = read_unit(at), low;

	if (high < 0xd800 || high > 0xdfff)
		return high;
	if (high > 0xdbff || (*at)[0] != '\\' || (*at)[1] != 'u')
		return -1;
	*at += 2;
	low = read_unit(at);
	if (low < 0xdc00 || low > 0xdfff)
		return -1;
	return 0x10000 + ((high - 0xd800) << 10) + (low - 0xdc00);
}

static char *put_utf8(char *to, int32_t point)
{
	if (point < 0x80) {
		*to++ = (char)point;
		return to;
	}
	if (point < 0x800) {
		*to++ = (char)(0xc0 | point >> 6);
	} else if (point < 0x10000) {
		*to++ = (char)(0xe0 | point >> 12);
		*to++ = (char)(0x80 | (point >> 6 & 0x3f));
	} else {
		*to++ = (char)(0xf0 | point >> 18);
		*to++ = (char)(0x80 | (point >> 12 & 0x3f));
		*to++ = (char)(0x80 | (point >> 6 & 0x3f));
	}
	*to++ = (char)(0x80 | (point & 0x3f));
	return to;
}

/* Reads the text after a backslash; NULL if it is no escape. */
static char *read_escape(struct reader *reader, char *to)
{
	static const char letters[] = "\"\\/bfnrt", meanings[] = "\"\\/\b\f\n\r\t";
	const char *letter;

	if (*reader->at == 'u') {
		reader->at++;
		int32_t point = read_escaped_point(&reader->at);
		return point > 0 ? put_utf8(to, point) : NULL;
	}
	letter = *reader->at ? strchr(letters, *reader->at) : NULL;
	if (!letter)
		return NULL;
	reader->at++;
	*to++ = meanings[letter - letters];
	return to;
}

static int read_string(struct reader *reader)
{
	char *to = ++reader->at;
	int value = add_value(reader, RD_JSON_STRING);

	if (value < 0)
		return RONDO_MEMORY;
	reader->json->values[value].text = to;
	while (*reader->at != '"') {
		if ((unsigned char)*reader->at < 0x20)
			return refuse(reader, "a string does not end on its line");
		if (*reader->at == '\\') {
			reader->at++;
			to = read_escape(reader, to);
			if (!to)
				return refuse(reader, "a backslash that begins no escape");
			continue;
		}
		int length = rd_utf8_length(reader->at);
		if (!length)
			return refuse(reader, "a string that is no UTF-8");
		memmove(to, reader->at, (size_t)length);
		to += length;
		reader->at += length;
	}
	reader->at++;
	*to = '\0';
	return 0;
}

/* ---- Numbers, true, false and null ---- */

static bool skip_digits(char **at)
{
	char *first = *at;

	while (**at >= '0' && **at <= '9')
		++*at;
	return *at > first;
}

static bool skip_number(char **at)
{
	*at += **at == '-';
	if (**at == '0')
		++*at;
	else if (!skip_digits(at))
		return false;
	if (**at == '.') {
		++*at;
		if (!skip_digits(at))
			return false;
	}
	if ((**at | 0x20) != 'e')
		return true;
	++*at;
	*at += **at == '+' || **at == '-';
	return skip_digits(at);
}

static bool is_number(char c)
{
	return c == '-' || (c >= '0' && c <= '9');
}

/* The text of a number has no terminator: the document goes on behind it. */
static int read_number(struct reader *reader)
{
	int value = add_value(reader, RD_JSON_NUMBER);

	if (value < 0)
		return RONDO_MEMORY;
	reader->json->values[value].text = reader->at;
	return skip_number(&reader->at) ? 0 : refuse(reader, "a number that is none");
}

static int read_word(struct reader *reader)
{
	for (enum rd_json_kind kind = RD_JSON_NULL; kind <= RD_JSON_TRUE; kind++) {
		const char *word = rd_json_kind_text(kind);
		size_t length = strlen(word);
		if (strncmp(reader->at, word, length))
			continue;
		reader->at += length;
		return add_value(reader, kind) < 0 ? RONDO_MEMORY : 0;
	}
	return refuse(reader,
		reader->at == reader->end ? "the text ends too early" : "what is here is no JSON");
}

/* ---- Arrays and objects ---- */

static int read_value(struct reader *reader, int depth);

static int read_key(struct reader *reader)
{
	skip_blanks(reader);
	if (*reader->at != '"')
		return refuse(reader, "an object wants a key in quotes here");
	int err = read_string(reader);
	if (err)
		return err;
	skip_blanks(reader);
	if (*reader->at != ':')
		return refuse(reader, "a key wants a colon after it");
	reader->at++;
	return 0;
}

static int read_inside(struct reader *reader, int depth)
{
	char close = *reader->at == '{' ? '}' : ']';
	int value = add_value(reader, close == '}' ? RD_JSON_OBJECT : RD_JSON_ARRAY), err = 0;

	if (value < 0)
		return RONDO_MEMORY;
	if (depth == RD_JSON_DEPTH_MAX)
		return refuse(reader, "arrays and objects are too deep in each other");
	reader->at++;
	skip_blanks(reader);
	for (int count = 0; count || *reader->at != close;) {
		if (close == '}')
			err = read_key(reader);
		if (!err)
			err = read_value(reader, depth + 1);
		if (err)
			return err;
		skip_blanks(reader);
		reader->json->values[value].count = ++count;
		if (*reader->at == close)
			break;
		if (*reader->at != ',')
			return refuse(reader, close == '}' ? "an object wants a comma or } here"
							   : "an array wants a comma or ] here");
		reader->at++;
	}
	reader->at++;
	reader->json->values[value].next = reader->json->count;
	return 0;
}

static int read_value(struct reader *reader, int depth)
{
	skip_blanks(reader);
	switch (*reader->at) {
	case '{':
	case '[':
		return read_inside(reader, depth);
	case '"':
		return read_string(reader);
	default:
		return is_number(*reader->at) ? read_number(reader) : read_word(reader);
	}
}

static int read_document(struct reader *reader)
{
	int err = read_value(reader, 0);

	if (err)
		return err;
	skip_blanks(reader);
	return reader->at == reader->end ? 0 : refuse(reader, "something follows the end");
}

int rd_json_parse(struct rd_json *json, const char *name, const char *text, size_t size)
{
	struct reader reader = { .json = json, .name = name, .line = 1 };
	int err;

	*json = (struct rd_json){ 0 };
	if (size > RD_JSON_SIZE_MAX)
		return rd_fail(RONDO_INVALID, "%s: more than %d bytes", name, RD_JSON_SIZE_MAX);
	json->text = malloc(size + 1);
	if (!json->text)
		return rd_fail(RONDO_MEMORY, "no memory to read %s", name);
	memcpy(json->text, text, size);
	json->text[size] = '\0';
	reader.at = json->text;
	reader.end = json->text + size;
	err = read_document(&reader);
	if (err)
		rd_json_finish(json);
	return err;
}

void rd_json_finish(struct rd_json *json)
{
	free(json->values);
	free(json->text);
	*json = (struct rd_json){ 0 };
}

bool rd_json_whole(const struct rd_json_value *value, int64_t least, int64_t most, int64_t *number)
{
	int64_t sum = 0;

	if (value->kind != RD_JSON_NUMBER)
		return false;
	bool negative = value->text[0] == '-';
	const char *at = value->text + negative;
	for (; *at >= '0' && *at <= '9'; at++)
		if (__builtin_mul_overflow(sum, 10, &sum) ||
			__builtin_add_overflow(sum, *at - '0', &sum))
			return false;
	/* Text behind a whole number belongs to the surrounding document. */
	if (*at == '.' || *at == 'e' || *at == 'E')
		return false;
	*number = negative ? -sum : sum;
	return *number >= least && *number <= most;
}

const struct rd_json_value *rd_json_member(
	const struct rd_json *json, const struct rd_json_value *object, const char *name)
{
	int at = (int)(object - json->values) + 1;

	if (object->kind != RD_JSON_OBJECT)
		return NULL;
	for (int i = 0; i < object->count; i++) {
		const struct rd_json_value *value = &json->values[at + 1];

		if (strcmp(json->values[at].text, name) == 0)
			return value;
		at = value->next;
	}
	return NULL;
}

void rd_json_write_string(FILE *out, const char *text)
{
	fputc('"', out);
	for (int length; *text; text += length ? length : 1) {
		length = rd_utf8_length(text);
		if (*text == '"' || *text == '\\')
			fputc('\\', out);
		if (length == 0)
			fputs("\\ufffd", out);
		else if ((unsigned char)*text < 0x20 || *text == 0x7f)
			fprintf(out, "\\u%04x", *text);
		else
			fwrite(text, 1, (size_t)length, out);
	}
	fputc('"', out);
}
