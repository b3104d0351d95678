#include "run/failure.h"

#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/json.h"

/* Bytes. A longer error file is not read. */
#define ERROR_FILE_MAX (1 << 20)

void failure_describe(const struct failure *failure, char *text, size_t size)
{
	if (failure->node < 0)
		snprintf(text, size, "host %s was lost", failure->host);
	else if (failure->rank < 0)
		snprintf(text, size, "node %d (host %s) was lost", failure->node, failure->host);
	else if (failure->by_signal)
		snprintf(text, size, "rank %d (pid %d) was killed by signal %d (%s)", failure->rank,
			(int)failure->pid, failure->status - 128, strsignal(failure->status - 128));
	else
		snprintf(text, size, "rank %d (pid %d) exited with status %d", failure->rank,
			(int)failure->pid, failure->status);
}

static int weight(const struct failure *failure)
{
	return failure->rank < 0 ? 2 : failure->by_signal;
}

bool failure_outranks(const struct failure *failure, const struct failure *earlier)
{
	return weight(failure) > weight(earlier);
}

/* ---- The error file ------------------------------------------------------------------------- */

/* Copies the text as one line. */
static void copy_line(char *line, size_t size, const char *text)
{
	size_t length = 0;

	for (; *text && length + 1 < size; text++)
		line[length++] = (unsigned char)*text < ' ' || *text == 0x7f ? ' ' : *text;
	while (length > 0 && line[length - 1] == ' ')
		length--;
	line[length] = '\0';
}

/* {"message": TEXT}, or {"message": {"message": TEXT, ...}}, as torch writes it. */
static void find_message(struct failure *failure, const char *text, size_t size)
{
	const struct rd_json_value *found;
	struct rd_json json;

	if (rd_json_parse(&json, "the error file", text, size))
		return;
	found = rd_json_member(&json, &json.values[0], "message");
	if (found && found->kind == RD_JSON_OBJECT)
		found = rd_json_member(&json, found, "message");
	if (found && found->kind == RD_JSON_STRING)
		copy_line(failure->message, sizeof(failure->message), found->text);
	rd_json_finish(&json);
}

void failure_read_message(struct failure *failure, const char *path)
{
	int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
	char *text = fd < 0 ? NULL : malloc(ERROR_FILE_MAX);
	ssize_t size = text ? read(fd, text, ERROR_FILE_MAX) : 0;

	failure->message[0] = '\0';
	if (size > 0)
		find_message(failure, text, (size_t)size);
	free(text);
	if (fd >= 0)
		close(fd);
}

/* ---- The report ----------------------------------------------------------------------------- */

static void print_time(const struct failure *failure, struct console *console)
{
	time_t seconds = (time_t)(failure->at_ms / 1000);
	char day[32] = "", zone[16] = "";
	struct tm at;

	if (localtime_r(&seconds, &at)) {
		strftime(day, sizeof(day), "%Y-%m-%d %H:%M:%S", &at);
		strftime(zone, sizeof(zone), "%z", &at);
	}
	console_print(console, "  time: %s.%03d %s, %" PRId64 ".%03d s after the start", day,
		(int)(failure->at_ms % 1000), zone, failure->after_ms / 1000,
		(int)(failure->after_ms % 1000));
}

static void print_tail(const struct failure *failure, struct console *console)
{
	for (const char *at = failure->tail; *at;) {
		size_t length = strcspn(at, "\n");

		console_print(console, "  | %.*s", (int)length, at);
		at += length + (at[length] == '\n');
	}
}

void failure_report(const struct failure *failure, struct console *console)
{
	char end[192];

	failure_describe(failure, end, sizeof(end));
	console_print(console, "first failure: %s", end);
	if (failure->rank >= 0)
		console_print(console, "  host: %s, node %d, local rank %d", failure->host,
			failure->node, failure->local_rank);
	print_time(failure, console);
	if (failure->message[0])
		console_print(console, "  error: %s", failure->message);
	if (failure->log[0])
		console_print(console, "  log: %s", failure->log);
	if (failure->tail[0]) {
		console_print(console, "  the end of its stderr:");
		print_tail(failure, console);
	}
}
