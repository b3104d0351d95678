#include "bench_run.h"

#include <criterion/criterion.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>

static struct bench_outcome *run_command(const char *command)
{
	static struct bench_outcome outcome;
	FILE *pipe = popen(command, "r");

	cr_assert_not_null(pipe);
	size_t length = fread(outcome.text, 1, OUTPUT_MAX - 1, pipe);
	outcome.text[length] = '\0';
	int status = pclose(pipe);
	outcome.status = WIFEXITED(status) ? WEXITSTATUS(status) : -1;
	return &outcome;
}

struct bench_outcome *run_script(const char *format, ...)
{
	char script[2048], command[2064];
	va_list values;

	va_start(values, format);
	vsnprintf(script, sizeof(script), format, values);
	va_end(values);
	snprintf(command, sizeof(command), "exec 2>&1; %s", script);
	return run_command(command);
}

struct bench_outcome *run_bench(const char *format, ...)
{
	char arguments[1024];
	va_list values;

	va_start(values, format);
	vsnprintf(arguments, sizeof(arguments), format, values);
	va_end(values);
	return run_script("'%s' %s", RONDO_BENCH, arguments);
}

const char *row_at(const struct bench_outcome *outcome, int n)
{
	for (const char *line = outcome->text; *line; line = strchr(line, '\n') + 1) {
		if (*line != '#' && n-- == 0)
			return line;
		if (!strchr(line, '\n'))
			break;
	}
	return NULL;
}

int rows_of(const struct bench_outcome *outcome)
{
	int n = 0;

	while (row_at(outcome, n))
		n++;
	return n;
}

void expect_bench_refused(const char *arguments, const char *reason)
{
	struct bench_outcome *outcome = run_bench("%s", arguments);
	char *newline = strchr(outcome->text, '\n');

	cr_assert_eq(outcome->status, 2, "%s: %s", arguments, outcome->text);
	cr_assert(strstr(outcome->text, reason), "%s: %s", arguments, outcome->text);
	cr_assert(newline && newline[1] == '\0', "not one line: %s", outcome->text);
}
