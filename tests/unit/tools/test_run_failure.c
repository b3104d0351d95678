/* rondo-run: the last lines of a rank's stderr, the message of its error file, and the report. */
#include <criterion/criterion.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "program.h"
#include "run/failure.h"
#include "text.h"

static void write_text(struct tail *tail, const char *text)
{
	tail_write(tail, text, strlen(text));
}

static const char *shown(const struct tail *tail)
{
	static char text[TAIL_TEXT_SIZE];

	tail_text(tail, text);
	return text;
}

Test(run_failure, the_tail_is_the_last_ten_lines)
{
	struct tail tail = { 0 };

	cr_assert_str_eq(shown(&tail), "");
	for (int i = 0; i < 12; i++) {
		char line[16];

		snprintf(line, sizeof(line), "line %d\n", i);
		write_text(&tail, line);
	}
	cr_assert_str_eq(shown(&tail),
		"line 2\nline 3\nline 4\nline 5\nline 6\nline 7\nline 8\nline 9\nline 10\nline "
		"11\n");
	write_text(&tail, "no end");
	cr_assert_null(strstr(shown(&tail), "line 2\n"));
	cr_assert_str_eq(strstr(shown(&tail), "line 11"), "line 11\nno end\n");
}

Test(run_failure, the_tail_leaves_out_a_line_whose_start_is_lost)
{
	struct tail tail = { 0 };
	char text[3 * TAIL_SIZE];

	memset(text, 'x', sizeof(text));
	memcpy(text + sizeof(text) - 5, "\nend\n", 5);
	tail_write(&tail, text, sizeof(text));
	cr_assert_str_eq(shown(&tail), "end\n");
	/* In small pieces it is the same. */
	tail = (struct tail){ 0 };
	for (size_t at = 0; at < sizeof(text); at++)
		tail_write(&tail, text + at, 1);
	cr_assert_str_eq(shown(&tail), "end\n");
}

Test(run_failure, a_single_long_line_is_shown_from_a_whole_character_on)
{
	struct tail tail = { 0 };

	for (int i = 0; i < TAIL_SIZE; i++)
		write_text(&tail, "\xe2\x82\xac"); /* a character of three bytes */
	cr_assert_eq(tail.size, TAIL_SIZE);
	cr_assert_eq(strncmp(shown(&tail), "\xe2\x82\xac", 3), 0);
	cr_assert_eq(strlen(shown(&tail)) % 3, 1, "whole characters, and the line's end");
}

Test(run_failure, the_tail_stands_as_a_screen_shows_it)
{
	struct tail tail = { 0 };

	write_text(&tail, "\033]0;title\a\033[1;31mred\033[0m\tx\a\n 10%\r 20%\r\nlast\n\n\n");
	cr_assert_str_eq(shown(&tail), "red\tx\n 20%\nlast\n");
	tail = (struct tail){ 0 };
	write_text(&tail, "open\033[3");
	cr_assert_str_eq(shown(&tail), "open\n");
}

Test(run_failure, the_tail_of_a_file_is_its_end)
{
	struct tail tail;
	char path[64], text[TAIL_SIZE];
	int fd = program_file();

	memset(text, 'x', sizeof(text));
	cr_assert_eq(write(fd, text, sizeof(text)), sizeof(text));
	cr_assert_eq(write(fd, "\none\ntwo\n", 9), 9);
	snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
	cr_assert(tail_read_file(&tail, path));
	cr_assert_str_eq(shown(&tail), "one\ntwo\n");
	cr_assert_not(tail_read_file(&tail, "/proc/self/fd/no"));
	cr_assert_str_eq(shown(&tail), "");
}

/* ---- The error file ------------------------------------------------------------------------- */

static const char *message_of(const char *text)
{
	static struct failure failure;
	char path[64];
	int fd = program_file();

	cr_assert_eq(write(fd, text, strlen(text)), (ssize_t)strlen(text));
	snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
	failure_read_message(&failure, path);
	close(fd);
	return failure.message;
}

Test(run_failure, both_forms_of_an_error_files_message_are_read)
{
	cr_assert_str_eq(message_of("{\"message\": \"short\", \"timestamp\": 1}"), "short");
	cr_assert_str_eq(message_of("{\"message\": {\"extraInfo\": {\"message\": \"no\"}, "
				    "\"message\": \"ValueError: a\\nb\"}}"),
		"ValueError: a b");
}

Test(run_failure, other_error_files_have_no_message)
{
	static const char *const texts[] = { "", "{", "[]", "7", "{\"message\": 7}",
		"{\"message\": {}}", "{\"massage\": \"x\"}", "{\"message\": \"x\"} more" };
	struct failure failure;

	for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++)
		cr_assert_str_eq(message_of(texts[i]), "", "%s", texts[i]);
	failure_read_message(&failure, "/proc/self/fd/no");
	cr_assert_str_eq(failure.message, "");
}

Test(run_failure, a_long_message_is_cut)
{
	char text[2 * FAILURE_MESSAGE_SIZE];

	snprintf(text, sizeof(text), "{\"message\": \"%0*d\"}", FAILURE_MESSAGE_SIZE + 10, 1);
	cr_assert_eq(strlen(message_of(text)), FAILURE_MESSAGE_SIZE - 1);
}

/* ---- The report ----------------------------------------------------------------------------- */

static char *report(const struct failure *failure)
{
	struct console console = { 0 };
	int fd = program_file();
	char *text;

	sink_init(&console.err, fd);
	console.messages = &console.err;
	failure_report(failure, &console);
	while (console_waiting(&console))
		sink_flush(&console.err);
	console_finish(&console);
	text = file_text(fd);
	close(fd);
	return text;
}

Test(run_failure, the_report_names_all_that_is_known)
{
	struct failure failure = { .rank = 5,
		.local_rank = 1,
		.node = 2,
		.pid = 47,
		.host = "b",
		.status = 128 + SIGKILL,
		.by_signal = true,
		.at_ms = INT64_C(1700000000123),
		.after_ms = 12045,
		.message = "E: x",
		.log = "/l/stderr.log",
		.tail = "one\ntwo\n" };
	char *text;

	setenv("TZ", "UTC", 1);
	text = report(&failure);
	cr_assert_str_eq(text, "rondo-run: first failure: rank 5 (pid 47) was killed by signal 9 "
			       "(Killed)\n"
			       "rondo-run:   host: b, node 2, local rank 1\n"
			       "rondo-run:   time: 2023-11-14 22:13:20.123 +0000, 12.045 s after "
			       "the start\n"
			       "rondo-run:   error: E: x\n"
			       "rondo-run:   log: /l/stderr.log\n"
			       "rondo-run:   the end of its stderr:\n"
			       "rondo-run:   | one\n"
			       "rondo-run:   | two\n");
}

Test(run_failure, the_report_leaves_out_what_is_not_known)
{
	struct failure failure = { .rank = -1, .node = 3, .host = "c", .after_ms = 7 };
	char *text;

	setenv("TZ", "UTC", 1);
	text = report(&failure);
	cr_assert_str_eq(text, "rondo-run: first failure: node 3 (host c) was lost\n"
			       "rondo-run:   time: 1970-01-01 00:00:00.000 +0000, 0.007 s after "
			       "the start\n");
}

Test(run_failure, a_lost_node_and_a_death_by_signal_outrank_an_exit)
{
	struct failure lost = { .rank = -1 }, killed = { .by_signal = true }, failed = { 0 };

	cr_assert(failure_outranks(&lost, &killed));
	cr_assert(failure_outranks(&killed, &failed));
	cr_assert_not(failure_outranks(&failed, &failed));
	cr_assert_not(failure_outranks(&killed, &lost));
	cr_assert_not(failure_outranks(&killed, &killed));
}
