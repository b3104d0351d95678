#include "trace_events.h"

#include <limits.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>

#include "base/error.h"

#define EVENTS_KEY "\"traceEvents\""

struct events {
	FILE *file;
	const char *path;
	int line;
	plan_trace_event *take;
	void *context;
	size_t length;
	char text[PLAN_TRACE_EVENT_BYTES]; /* of the value at hand */
};

static int refuse(const struct events *events, const char *reason)
{
	return rd_fail(RONDO_INVALID, "%s:%d: %s", events->path, events->line, reason);
}

static int take_byte(struct events *events)
{
	int byte = getc_unlocked(events->file);

	events->line += byte == '\n' && events->line < INT_MAX;
	return byte;
}

/* Takes blanks. Returns the byte behind them, which stays; EOF: none. */
static int next_byte(struct events *events)
{
	int byte;

	do
		byte = take_byte(events);
	while (byte == ' ' || byte == '\t' || byte == '\r' || byte == '\n');
	return ungetc(byte, events->file);
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
			ungetc(byte, events->file);
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

		if (byte == EOF || byte == '[')
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

/* The rest of an object around the events. */
static int read_object(struct events *events)
{
	bool has_events = false, more = next_byte(events) != '}';

	while (more) {
		int err = take_value(events, true);
		bool of_events = !err && events->length >= strlen(EVENTS_KEY) &&
				 memcmp(events->text, EVENTS_KEY, strlen(EVENTS_KEY)) == 0;

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
	return has_events ? 0 : refuse(events, "no \"traceEvents\" in the object that ends here");
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
		if (take_if(&events, '['))
			err = read_array(&events);
		else if (take_if(&events, '{'))
			err = read_object(&events);
		else
			err = refuse(&events, "a trace begins with [ or {\"traceEvents\": [");
	}
	return ferror(file) ? rd_fail_errno("cannot read %s", path) : err;
}
