/* The files that rondo-bench writes, and outputs that it cannot write. */
#include <criterion/criterion.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/json.h"
#include "bench_run.h"
#include "text.h"

static bool is_json(const char *text)
{
	struct rd_json json;
	int err = rd_json_parse(&json, "text", text, strlen(text));

	rd_json_finish(&json);
	return err == 0;
}

/* Every tag that opens closes, in order; attributes are quoted; no stray < or &. */
static bool is_xml(const char *text)
{
	char open[16][16];
	int depth = 0, elements = 0;

	for (const char *at = text; *at; at++) {
		if (*at == '&' && strncmp(at, "&lt;", 4) && strncmp(at, "&gt;", 4) &&
			strncmp(at, "&amp;", 5))
			return false;
		if (*at != '<')
			continue;
		bool closes = at[1] == '/';
		char name[16];
		if (sscanf(at + 1 + closes, "%15[a-z]", name) != 1)
			return false;
		bool quoted = false;
		for (at++; *at && (quoted || *at != '>'); at++)
			quoted ^= *at == '"';
		if (*at != '>' || quoted)
			return false;
		if (closes && (depth == 0 || strcmp(open[--depth], name) != 0))
			return false;
		if (!closes && at[-1] != '/') {
			if (depth == 16)
				return false;
			strcpy(open[depth++], name);
		}
		elements++;
	}
	return depth == 0 && elements > 1;
}

Test(bench, the_checkers_of_this_file_distinguish_right_from_wrong)
{
	cr_assert(is_json("{\"a\": [1, -2.5e3, null, {\"b\\\"\": \"c\"}], \"d\": {}}"));
	cr_assert_not(is_json("{\"a\": 1,}"));
	cr_assert_not(is_json("{\"a\": nan}"));
	cr_assert_not(is_json("[1, 2"));
	cr_assert_not(is_json("[1] 2"));
	cr_assert(is_xml("<svg a=\"1>\"><g/><text>&lt;</text></svg>"));
	cr_assert_not(is_xml("<svg><g></svg></g>"));
	cr_assert_not(is_xml("<svg a=\"1></svg>"));
	cr_assert_not(is_xml("<svg>&</svg>"));
}

/* A file name in a directory of this test's own. */
static const char *scratch_path(const char *name)
{
	static char directory[] = "/tmp/rondo-bench-XXXXXX", path[64];

	if (directory[strlen(directory) - 1] == 'X')
		cr_assert_not_null(mkdtemp(directory));
	snprintf(path, sizeof(path), "%s/%s", directory, name);
	return path;
}

static void remove_scratch(const char *path)
{
	char directory[64];

	unlink(path);
	snprintf(directory, sizeof(directory), "%s", path);
	*strrchr(directory, '/') = '\0';
	rmdir(directory);
}

Test(bench, json_is_valid_and_holds_every_row, .timeout = 60)
{
	const char *path = scratch_path("a \\quoted\\ name.json");
	struct bench_outcome *outcome =
		run_bench("sendrecv --ranks 2 -b 8 -e 32 -f 2 -I -J '%s'", path);
	const char *text = file_text_at(path);

	cr_assert_eq(outcome->status, 0, "%s", outcome->text);
	cr_assert(is_json(text), "%s", text);
	cr_assert_eq(count_of(text, "{\"size\": "), 3);
	cr_assert(strstr(text, "\"in_place\": null"));
	cr_assert(strstr(text, "\"p90_us\": "));
	cr_assert(strstr(text, "\"p99_us\": "));
	cr_assert(strstr(text, "\"out_of_bounds\": {\"count\": 0, \"okay\": true}"));
	remove_scratch(path);
}

/* The file would get the number of standard output, and the table. */
Test(bench, a_file_holds_nothing_else_where_standard_output_is_closed, .timeout = 60)
{
	const char *path = scratch_path("x.json");
	struct bench_outcome *outcome =
		run_bench("barrier --ranks 2 -J '%s' <&- >&- 2>/dev/null", path);

	cr_assert_eq(outcome->status, 0);
	cr_assert(is_json(file_text_at(path)), "%s", file_text_at(path));
	remove_scratch(path);
}

Test(bench, json_without_checks_has_null_for_wrong, .timeout = 60)
{
	const char *path = scratch_path("x.json");
	struct bench_outcome *outcome = run_bench("barrier --ranks 2 -c 0 -J '%s'", path);
	const char *text = file_text_at(path);

	cr_assert_eq(outcome->status, 0, "%s", outcome->text);
	cr_assert(is_json(text), "%s", text);
	cr_assert(strstr(text, "\"nwrong\": null"));
	cr_assert(strstr(text, "\"algorithm\": \""), "%s", text);
	remove_scratch(path);
}

Test(bench, the_plot_is_well_formed_and_has_a_curve_a_half, .timeout = 60)
{
	const char *path = scratch_path("plot.svg");
	struct bench_outcome *outcome =
		run_bench("all_reduce --ranks 2 -b 0 -e 64K -f 4 --svg '%s'", path);
	const char *text = file_text_at(path);

	cr_assert_eq(outcome->status, 0, "%s", outcome->text);
	cr_assert(is_xml(text), "%s", text);
	cr_assert_null(strstr(text, "nan"));
	cr_assert_null(strstr(text, "inf"));
	cr_assert_eq(count_of(text, "<polyline"), 4);
	remove_scratch(path);
}

Test(bench, a_file_that_cannot_be_written_is_known_before_anything_is_measured, .timeout = 60)
{
	static const char *const options[] = { "-J", "--svg" };

	for (int i = 0; i < 2; i++) {
		struct bench_outcome *outcome =
			run_bench("barrier --ranks 2 %s /nowhere/x", options[i]);

		cr_assert_eq(outcome->status, 1);
		cr_assert_str_eq(outcome->text,
			"rondo-bench: cannot write /nowhere/x: No such file or directory\n");
		outcome = run_bench("barrier %s /tmp", options[i]);
		cr_assert_eq(outcome->status, 1);
		cr_assert_str_eq(outcome->text, "rondo-bench: cannot write /tmp: Is a directory\n");
		outcome = run_bench("barrier %s /dev/full", options[i]);
		cr_assert_eq(outcome->status, 1);
		cr_assert(
			strstr(outcome->text, "cannot write /dev/full: No space left on device\n"),
			"%s", outcome->text);
	}
}

Test(bench, a_file_keeps_what_it_holds_until_there_are_results, .timeout = 60)
{
	const char *path = scratch_path("old.json");
	FILE *file = fopen(path, "w");

	for (int i = 0; i < 10000; i++)
		fputs("old\n", file);
	fclose(file);
	cr_assert_eq(run_bench("barrier -J '%s' --svg /nowhere/x", path)->status, 1);
	cr_assert_eq(strncmp(file_text_at(path), "old\n", 4), 0);
	cr_assert_eq(run_bench("barrier -J '%s'", path)->status, 0);
	cr_assert(is_json(file_text_at(path)), "%s", file_text_at(path));
	remove_scratch(path);
}

Test(bench, a_table_that_nobody_can_read_is_a_failure, .timeout = 480)
{
	static const char *const runs[] = { "barrier --ranks 2", "init --ranks 2 -n 1",
		"barrier --ranks 2 --sweep --quick", "floor --quick" };

	for (size_t i = 0; i < sizeof(runs) / sizeof(*runs); i++) {
		struct bench_outcome *outcome = run_bench("%s 3>&1 >/dev/full 2>&3", runs[i]);

		cr_assert_eq(outcome->status, 1, "%s: %s", runs[i], outcome->text);
		cr_assert(strstr(outcome->text, "cannot write standard output"), "%s: %s", runs[i],
			outcome->text);
	}
}
