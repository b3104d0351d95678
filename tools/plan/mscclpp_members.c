#include <stdarg.h>
#include <string.h>

#include "base/error.h"
#include "mscclpp.h"

void mscclpp_refuse(
	struct mscclpp *reading, const struct rd_json_value *value, const char *format, ...)
{
	char what[200], where[120] = "";
	va_list args;
	int at = 0;

	if (reading->err)
		return;
	va_start(args, format);
	vsnprintf(what, sizeof(what), format, args);
	va_end(args);
	if (reading->rank >= 0)
		at = snprintf(where, sizeof(where), "gpu %d", reading->rank);
	if (reading->block >= 0)
		at += snprintf(where + at, sizeof(where) - (size_t)at, ", tb %d", reading->block);
	if (reading->op >= 0)
		at += snprintf(where + at, sizeof(where) - (size_t)at, ", op %d", reading->op);
	if (reading->op_name)
		at += snprintf(where + at, sizeof(where) - (size_t)at, " (%s)", reading->op_name);
	reading->err = rd_fail(RONDO_INVALID, "%s:%d: %s%s%s", reading->name, value->line, where,
		at ? ": " : "", what);
}

int mscclpp_whole(struct mscclpp *reading, const struct rd_json_value *object, const char *member,
	int least, int most)
{
	const struct rd_json_value *value = rd_json_member(&reading->json, object, member);
	int64_t number;

	if (value && rd_json_whole(value, least, most, &number))
		return (int)number;
	mscclpp_refuse(reading, value ? value : object, "\"%s\" is a whole number from %d to %d%s",
		member, least, most, value ? "" : ", and is missing");
	return least;
}

const char *mscclpp_text(
	struct mscclpp *reading, const struct rd_json_value *object, const char *member)
{
	const struct rd_json_value *value = rd_json_member(&reading->json, object, member);

	if (value && value->kind == RD_JSON_STRING)
		return value->text;
	mscclpp_refuse(reading, value ? value : object, "\"%s\" is a string%s", member,
		value ? "" : ", and is missing");
	return "";
}

char mscclpp_buffer(struct mscclpp *reading, const struct rd_json_value *object)
{
	const char *text = mscclpp_text(reading, object, "type");

	if (strlen(text) == 1 && strchr("ios", *text))
		return *text;
	mscclpp_refuse(reading, object, "\"type\" is i, o or s, not \"%.20s\"", text);
	return 'i';
}

const struct rd_json_value *mscclpp_array(
	struct mscclpp *reading, const struct rd_json_value *object, const char *member)
{
	static const struct rd_json_value none = { .kind = RD_JSON_ARRAY };
	const struct rd_json_value *value = rd_json_member(&reading->json, object, member);

	if (value && value->kind == RD_JSON_ARRAY)
		return value;
	if (value)
		mscclpp_refuse(reading, value, "\"%s\" is an array, not %s", member,
			rd_json_kind_text(value->kind));
	return &none;
}

const struct rd_json_value *mscclpp_next(const struct mscclpp *reading,
	const struct rd_json_value *array, const struct rd_json_value *value)
{
	const struct rd_json_value *next =
		value ? &reading->json.values[value->next] : array + (array->count > 0);

	return reading->err || next == array || next == &reading->json.values[array->next] ? NULL
											   : next;
}

enum mscclpp_type mscclpp_channel_type(
	struct mscclpp *reading, const struct rd_json_value *object, const char *member)
{
	const char *text = mscclpp_text(reading, object, member);

	if (strcmp(text, "memory") == 0)
		return MSCCLPP_MEMORY;
	if (strcmp(text, "port") == 0)
		return MSCCLPP_PORT;
	if (strcmp(text, "switch") != 0 && strcmp(text, "none") != 0)
		mscclpp_refuse(reading, object,
			"\"%s\" is memory, port, switch or none, not \"%.20s\"", member, text);
	return MSCCLPP_OTHER;
}
