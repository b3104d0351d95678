#include "trace_events.h"

#include <limits.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>

#include "base/error.h"

#define EVENTS_KEY "\"traceEvents\""
#define PHASE_KEY "\"ph\"" /* each event has one */
#define MARK_FIRST 0xef /* of a byte order mark */

struct events {
	FILE *file;
	const char *path;
	int line;
	plan_trace_event *take;
	void *context;
	size_t length;
	char text[PLAN_TRACE_EVENT_BYTES]; /* of the value at hand */
	/* The object at hand, which may be an event; read: its bytes, which may be more. */
	size_t read;
	char object[PLAN_TRACE_EVENT_BYTES];
};

static int refuse(const struct events *events, const char *reason)
{
	return rd_fail(RONDO_INVALID, "%s:%d: %s", events->path, events->line, reason);
}

static int take_byte(struct events *events)
{
	int byte = getc_unlocked(events->file);

	events->line += byte == '\n' && events->line < INT_MAX;
	if (events->read < sizeof(events->object))
		events->object[events->read] = (char)byte;
	events->read++;
	return byte;
}

static int put_back(struct events *events, int byte)
{
	events->read--;
	return ungetc(byte, events->file);
}

/* Takes blanks. Returns the byte behind them, which stays; EOF: none. */
static int next_byte(struct events *events)
{
	int byte;

	do
		byte = take_byte(events);
	while (byte == ' ' || byte == '\t' || byte == '\r' || byte == '\n');
	return put_back(events, byte);
}

/* Takes the byte, if it is the next. */
static bool take_if(struct events *events, int byte)
{
	return next_byte(events) == byte && take_byte(events) == byte;
}

/* Takes a key or a value: all from the first byte that is no blank to the comma, colon or bracket
   behind it. Its text stays in `events`, if it is kept. */
static int take_value(struct events *events, bool keeps)
{
	int64_t depth = 0;
	bool in_string = false, escaped = false;

	next_byte(events);
	for (events->length = 0;;) {
		int byte = take_byte(events);

		if (byte == EOF)
			return refuse(events, "the file was cut");
		if (!in_string && depth == 0 && memchr(",:]}", byte, 4)) {
			put_back(events, byte);
			return 0;
		}
		if (keeps && events->length == sizeof(events->text))
			return refuse(events, "an event has more than 4096 bytes");
		if (keeps)
			events->text[events->length++] = (char)byte;
		if (in_string) {
			in_string = escaped || byte != '"';
			escaped = !escaped && byte == '\\';
			continue;
		}
		in_string = byte == '"';
		depth += (byte == '{' || byte == '[') - (byte == '}' || byte == ']');
	}
}

/* The rest of an array. Ranks leave it open, and another file may follow. */
static int read_array(struct events *events)
{
	while (!take_if(events, ']')) {
		int byte = next_byte(events), line = events->line;

		if (byte == EOF || byte == '[' || byte == MARK_FIRST)
			return 0;

		int err = take_value(events, true);

		if (!err)
			err = events->take(events->context, line, events->text, events->length);
		if (err)
			return err;
		if (!take_if(events, ',') && next_byte(events) != ']')
			return refuse(events, "a comma or ] must follow an event");
	}
	return 0;
}

static bool is_key(const struct events *events, const char *key)
{
	return events->length >= strlen(key) && memcmp(events->text, key, strlen(key)) == 0;
}

/* The object was an event of JSON Lines. */
static int take_object(struct events *events, int line)
{
	if (events->read > sizeof(events->object))
		return refuse(events, "an event has more than 4096 bytes");
	return events->take(events->context, line, events->object, events->read);
}

/* The rest of an object around the events, or of one event, behind its brace on this line. */
static int read_object(struct events *events, int line)
{
	bool has_events = false, is_event = false, more = next_byte(events) != '}';

	while (more) {
		int err = take_value(events, true);
		bool of_events = !err && is_key(events, EVENTS_KEY);

		is_event |= !err && is_key(events, PHASE_KEY);
		if (!err && !take_if(events, ':'))
			err = refuse(events, "this is no JSON");
		if (err)
			return err;
		of_events = of_events && take_if(events, '[');
		has_events |= of_events;
		err = of_events ? read_array(events) : take_value(events, false);
		if (err)
			return err;
		more = take_if(events, ',');
	}
	if (!take_if(events, '}'))
		return refuse(
			events, next_byte(events) == EOF ? "the file was cut" : "this is no JSON");
	if (is_event && !has_events)
		return take_object(events, line);
	return has_events ? 0 : refuse(events, "no \"traceEvents\" in the object that ends here");
}

/* The rest of a byte order mark, which some editors write before JSON. */
static int read_mark(struct events *events)
{
	return take_byte(events) == 0xbb && take_byte(events) == 0xbf
		       ? 0
		       : refuse(events, "this is no JSON");
}

int plan_trace_events_read(FILE *file, const char *path, plan_trace_event *take, void *context)
{
	struct events events = {
		.file = file, .path = path, .line = 1, .take = take, .context = context
	};
	int err = 0;

	if (next_byte(&events) == EOF && !ferror(file))
		return rd_fail(RONDO_INVALID,
			"%s is empty: a rank writes its trace when it destroys the comm", path);
	while (!err && next_byte(&events) != EOF) {
		events.read = 0; /* the next byte is not taken yet */
		if (take_if(&events, '['))
			err = read_array(&events);
		else if (take_if(&events, '{'))
			err = read_object(&events, events.line);
		else if (take_if(&events, MARK_FIRST))
			err = read_mark(&events);
		else
			err = refuse(&events, "a trace begins with [ or {");
	}
	return ferror(file) ? rd_fail_errno("cannot read %s", path) : err;
}
