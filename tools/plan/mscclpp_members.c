#include <stdarg.h>
#include <string.h>

#include "base/error.h"
#include "mscclpp.h"

int mscclpp_refuse(
	const struct mscclpp *reading, const struct rd_json_value *value, const char *format, ...)
{
	char what[200], where[120] = "";
	va_list args;
	int at = 0;

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
	return rd_fail(RONDO_INVALID, "%s:%d: %s%s%s", reading->name, value->line, where,
		at ? ": " : "", what);
}

int mscclpp_whole(const struct mscclpp *reading, const struct rd_json_value *object,
	const char *member, int least, int most, int *number)
{
	const struct rd_json_value *value = rd_json_member(&reading->json, object, member);
	int64_t wide;

	*number = 0;
	if (!value || !rd_json_whole(value, least, most, &wide))
		return mscclpp_refuse(reading, value ? value : object,
			"\"%s\" is a whole number from %d to %d%s", member, least, most,
			value ? "" : ", and is missing");
	*number = (int)wide;
	return 0;
}

int mscclpp_text(const struct mscclpp *reading, const struct rd_json_value *object,
	const char *member, const char **text)
{
	const struct rd_json_value *value = rd_json_member(&reading->json, object, member);

	*text = "";
	if (!value || value->kind != RD_JSON_STRING)
		return mscclpp_refuse(reading, value ? value : object, "\"%s\" is a string%s",
			member, value ? "" : ", and is missing");
	*text = value->text;
	return 0;
}

int mscclpp_buffer(const struct mscclpp *reading, const struct rd_json_value *object, char *buffer)
{
	const char *text;
	int err = mscclpp_text(reading, object, "type", &text);

	*buffer = 0;
	if (err)
		return err;
	if (strlen(text) != 1 || !strchr("ios", *text))
		return mscclpp_refuse(
			reading, object, "\"type\" is i, o or s, not \"%.20s\"", text);
	*buffer = *text;
	return 0;
}

int mscclpp_array(const struct mscclpp *reading, const struct rd_json_value *object,
	const char *member, const struct rd_json_value **array)
{
	const struct rd_json_value *value = rd_json_member(&reading->json, object, member);

	*array = NULL;
	if (value && value->kind != RD_JSON_ARRAY)
		return mscclpp_refuse(reading, value, "\"%s\" is an array, not %s", member,
			rd_json_kind_text(value->kind));
	*array = value;
	return 0;
}

int mscclpp_channel_type(const struct mscclpp *reading, const struct rd_json_value *object,
	const char *member, enum mscclpp_type *type)
{
	const char *text;
	int err;

	*type = MSCCLPP_OTHER;
	if (!rd_json_member(&reading->json, object, member))
		return 0;
	err = mscclpp_text(reading, object, member, &text);
	if (err)
		return err;
	if (strcmp(text, "memory") == 0)
		*type = MSCCLPP_MEMORY;
	else if (strcmp(text, "port") == 0)
		*type = MSCCLPP_PORT;
	else if (strcmp(text, "switch") != 0 && strcmp(text, "none") != 0)
		return mscclpp_refuse(reading, object,
			"\"%s\" is memory, port, switch or none, not \"%.20s\"", member, text);
	return 0;
}
