#include "xml.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"

int xml_refuse(const struct xml *xml, const char *format, ...)
{
	char reason[200];
	va_list args;

	va_start(args, format);
	vsnprintf(reason, sizeof(reason), format, args);
	va_end(args);
	return rd_fail(RONDO_INVALID, "%s:%d: %s", xml->name, xml->line, reason);
}

int xml_misplaced(const struct xml *xml, const char *element)
{
	return xml_refuse(xml, "<%.20s> has no place here", element);
}

/* ---- Attributes ---- */

const char *xml_attribute(const struct xml *xml, const char *name)
{
	for (const char **at = xml->attributes; *at; at += 2)
		if (strcmp(*at, name) == 0)
			return at[1];
	return NULL;
}

int xml_text(const struct xml *xml, const char *name, const char **text)
{
	*text = xml_attribute(xml, name);
	return *text ? 0 : xml_refuse(xml, "%s is missing", name);
}

int xml_wide(const struct xml *xml, const char *name, int64_t least, int64_t most, int64_t standard,
	int64_t *number)
{
	const char *text = xml_attribute(xml, name);
	char *end;

	*number = standard;
	if (!text && standard >= least)
		return 0;
	if (text)
		*number = strtoll(text, &end, 10);
	if (text && *text && !*end && *number >= least && *number <= most)
		return 0;
	return xml_refuse(xml, "%s is a whole number from %lld to %lld, not \"%.40s\"", name,
		(long long)least, (long long)most, text ? text : "");
}

int xml_int(const struct xml *xml, const char *name, int least, int most, int standard, int *number)
{
	int64_t wide;
	int err = xml_wide(xml, name, least, most, standard, &wide);

	*number = err ? 0 : (int)wide;
	return err;
}

/* ---- The document ---- */

#ifndef RD_HAS_EXPAT
int xml_read(struct xml *xml, const struct xml_reader *reader, const char *text, size_t size)
{
	(void)reader;
	(void)text;
	(void)size;
	return rd_fail(RONDO_UNSUPPORTED,
		"%s: this program was built without expat, which reads XML", xml->name);
}
#else
#include <expat.h>

struct reading {
	struct xml *xml;
	const struct xml_reader *reader;
	XML_Parser parser;
	int err;
};

static void stop(struct reading *reading, int err)
{
	reading->err = err;
	if (err)
		XML_StopParser(reading->parser, XML_FALSE);
}

static void begin_element(void *data, const char *name, const char **attributes)
{
	struct reading *reading = data;
	struct xml *xml = reading->xml;

	if (reading->err)
		return;
	xml->line = (int)XML_GetCurrentLineNumber(reading->parser);
	xml->attributes = attributes;
	stop(reading, reading->reader->begin(xml, name));
	xml->depth++;
}

static void end_element(void *data, const char *name)
{
	struct reading *reading = data;
	struct xml *xml = reading->xml;

	if (reading->err)
		return;
	xml->depth--;
	xml->line = (int)XML_GetCurrentLineNumber(reading->parser);
	if (reading->reader->end)
		stop(reading, reading->reader->end(xml, name));
}

/* It could define entities that name each other, and files. */
static void begin_doctype(
	void *data, const char *name, const char *system, const char *public, int has_subset)
{
	struct reading *reading = data;

	(void)name;
	(void)system;
	(void)public;
	(void)has_subset;
	reading->xml->line = (int)XML_GetCurrentLineNumber(reading->parser);
	stop(reading, xml_misplaced(reading->xml, "!DOCTYPE"));
}

static int parse(struct reading *reading, const char *text, size_t size)
{
	struct xml *xml = reading->xml;

	if (size > INT32_MAX)
		return rd_fail(RONDO_INVALID, "%s: more than %d bytes", xml->name, INT32_MAX);
	enum XML_Status status = XML_Parse(reading->parser, text, (int)size, 1);
	if (reading->err)
		return reading->err;
	xml->line = (int)XML_GetCurrentLineNumber(reading->parser);
	return status == XML_STATUS_ERROR
		       ? xml_refuse(xml, "%s", XML_ErrorString(XML_GetErrorCode(reading->parser)))
		       : 0;
}

int xml_read(struct xml *xml, const struct xml_reader *reader, const char *text, size_t size)
{
	struct reading reading = { .xml = xml, .reader = reader };
	int err;

	xml->depth = 0;
	reading.parser = XML_ParserCreate(NULL);
	if (!reading.parser)
		return rd_fail(RONDO_MEMORY, "no memory to read %s", xml->name);
	XML_SetUserData(reading.parser, &reading);
	XML_SetElementHandler(reading.parser, begin_element, end_element);
	XML_SetStartDoctypeDeclHandler(reading.parser, begin_doctype);
	err = parse(&reading, text, size);
	XML_ParserFree(reading.parser);
	return err;
}
#endif
