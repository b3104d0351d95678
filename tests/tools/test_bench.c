/* rondo-bench as people run it: its columns, its files, its exit status. */
#include <criterion/criterion.h>
#include <ctype.h>
#include <fcntl.h>
#include <signal.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "bench/measure.h"
#include "world.h"

#define OUTPUT_MAX (1 << 18)

/* What a run of the tool left. */
struct outcome {
	int status;
	char text[OUTPUT_MAX];
};

/* Runs a shell's command with its errors among its output. */
static struct outcome *run_script(const char *format, ...) __attribute__((format(printf, 1, 2)));
/* Runs `rondo-bench ARGUMENTS` so. */
static struct outcome *run_bench(const char *format, ...) __attribute__((format(printf, 1, 2)));

static struct outcome *run_command(const char *command)
{
	static struct outcome outcome;
	FILE *pipe = popen(command, "r");

	cr_assert_not_null(pipe);
	size_t length = fread(outcome.text, 1, OUTPUT_MAX - 1, pipe);
	outcome.text[length] = '\0';
	int status = pclose(pipe);
	outcome.status = WIFEXITED(status) ? WEXITSTATUS(status) : -1;
	return &outcome;
}

static struct outcome *run_script(const char *format, ...)
{
	char script[2048], command[2064];
	va_list values;

	va_start(values, format);
	vsnprintf(script, sizeof(script), format, values);
	va_end(values);
	snprintf(command, sizeof(command), "exec 2>&1; %s", script);
	return run_command(command);
}

static struct outcome *run_bench(const char *format, ...)
{
	char arguments[1024];
	va_list values;

	va_start(values, format);
	vsnprintf(arguments, sizeof(arguments), format, values);
	va_end(values);
	return run_script("'%s' %s", RONDO_TOOL, arguments);
}

/* The n-th line that is no comment, from 0; NULL when there are fewer. */
static const char *row_at(const struct outcome *outcome, int n)
{
	for (const char *line = outcome->text; *line; line = strchr(line, '\n') + 1) {
		if (*line != '#' && n-- == 0)
			return line;
		if (!strchr(line, '\n'))
			break;
	}
	return NULL;
}

static int rows_of(const struct outcome *outcome)
{
	int n = 0;

	while (row_at(outcome, n))
		n++;
	return n;
}

/* ---- The table ---- */

Test(bench, the_header_has_the_columns_of_nccl_tests, .timeout = 60)
{
	struct outcome *outcome = run_bench("all_reduce --ranks 2 -b 8 -e 64 -f 2");

	cr_assert_eq(outcome->status, 0, "%s", outcome->text);
	cr_assert(strstr(outcome->text, "# nThread 1 nGpus 1 minBytes 8 maxBytes 64 step: "
					"2(factor) warmup iters: 5 iters: 20 agg "
					"iters: 1 validation: 1 graph: 0\n"));
	cr_assert(strstr(outcome->text, "#\n"
					"#                                                         "
					"     out-of-place         "
					"              in-place          \n"
					"#       size         count      type   redop    root     "
					"time   algbw   busbw  "
					"#wrong     time   algbw   busbw  #wrong  algorithm\n"
					"#        (B)    (elements)                               "
					"(us)  (GB/s)  (GB/s)       "
					"      (us)  (GB/s)  (GB/s)        \n"),
		"%s", outcome->text);
	cr_assert(strstr(
		outcome->text, "\n# Out of bounds values : 0 OK\n# Avg bus bandwidth    : "));
}

Test(bench, rows_parse_as_the_thirteen_columns_of_nccl_tests_and_the_algorithm, .timeout = 60)
{
	struct outcome *outcome = run_bench("all_reduce --ranks 2 -b 8 -e 64K -f 8");
	size_t size, count, expected = 8;

	cr_assert_eq(rows_of(outcome), 5, "%s", outcome->text);
	for (int i = 0; i < 5; i++, expected *= 8) {
		char type[16], op[16], algorithm[16], rest[16];
		int root;
		double time[2], algbw[2], busbw[2], wrong[2];
		int found = sscanf(row_at(outcome, i),
			"%zu %zu %15s %15s %d %lf %lf %lf %lf %lf %lf %lf %lf %15s%15[ ]", &size,
			&count, type, op, &root, &time[0], &algbw[0], &busbw[0], &wrong[0],
			&time[1], &algbw[1], &busbw[1], &wrong[1], algorithm, rest);
		cr_assert_eq(found, 14, "%s", outcome->text);
		cr_assert_eq(size, expected);
		cr_assert_eq(count, expected / 4);
		cr_assert_str_eq(type, "float");
		cr_assert_str_eq(op, "sum");
		cr_assert_eq(root, -1);
		for (int half = 0; half < 2; half++) {
			cr_assert_gt(time[half], 0);
			cr_assert_eq(wrong[half], 0);
			/* Two ranks: the factor of all_reduce is 2 * (2 - 1) / 2. */
			cr_assert_float_eq(algbw[half], busbw[half], 0.011);
		}
	}
}

Test(bench, columns_end_under_their_heads, .timeout = 60)
{
	static const int ends[] = { 12, 26, 36, 44, 52, 61, 69, 77, 85, 94, 102, 110, 118 };
	struct outcome *outcome =
		run_bench("reduce_scatter --ranks 2 -b 1K -e 1M -f 1024 -d half -o max");

	for (int i = 0; i < rows_of(outcome); i++) {
		const char *row = row_at(outcome, i);
		cr_assert_geq(strcspn(row, "\n"), 122, "%s", outcome->text);
		cr_assert(isgraph((unsigned char)row[120]), "%s", row);
		for (size_t k = 0; k < sizeof(ends) / sizeof(*ends); k++) {
			cr_assert(
				isgraph((unsigned char)row[ends[k] - 1]), "column %zu: %s", k, row);
			cr_assert(isspace((unsigned char)row[ends[k]]), "column %zu: %s", k, row);
		}
	}
}

Test(bench, percentiles_add_three_columns_to_each_half, .timeout = 60)
{
	struct outcome *outcome = run_bench("all_gather --ranks 2 -b 64 -e 64 -I");
	double time[2], p50[2], p99[2], most[2];

	cr_assert(strstr(outcome->text, "#wrong      p50      p99      max     time"), "%s",
		outcome->text);
	int found = sscanf(row_at(outcome, 0),
		"%*u %*u %*s %*s %*d %lf %*f %*f %*f %lf %lf %lf %lf %*f %*f %*f %lf %lf %lf",
		&time[0], &p50[0], &p99[0], &most[0], &time[1], &p50[1], &p99[1], &most[1]);
	cr_assert_eq(found, 8, "%s", outcome->text);
	for (int half = 0; half < 2; half++) {
		cr_assert_leq(p50[half], p99[half]);
		cr_assert_leq(p99[half], most[half]);
	}
}

Test(bench, a_percentile_is_the_least_value_that_covers_its_share)
{
	double values[200];

	for (int i = 0; i < 200; i++)
		values[i] = i + 1;
	cr_assert_eq(bench_percentile(values, 200, 50), 100);
	cr_assert_eq(bench_percentile(values, 200, 99), 198);
	cr_assert_eq(bench_percentile(values, 3, 50), 2);
	cr_assert_eq(bench_percentile(values, 1, 99), 1);
}

/* ---- Every collective ---- */

static void run_each(const char *transport)
{
	const struct bench_collective *collective;

	for (int i = 0; (collective = bench_collective_at(i)); i++) {
		struct outcome *outcome =
			run_bench("%s --ranks 2 -b 8 -e 32K -f 64 -n 5 --transport %s",
				collective->name, transport);
		cr_assert_eq(outcome->status, 0, "%s over %s:\n%s", collective->name, transport,
			outcome->text);
		cr_assert(strstr(outcome->text, "# Out of bounds values : 0 OK"));
		cr_assert_eq(rows_of(outcome), collective->shape == BENCH_EMPTY ? 1 : 3, "%s",
			outcome->text);
	}
}

Test(bench, every_collective_is_right_over_shm, .timeout = 120)
{
	run_each("shm");
}

Test(bench, every_collective_is_right_over_tcp, .timeout = 120)
{
	run_each("tcp");
}

Test(bench, all_types_and_operations_take_a_row_each, .timeout = 120)
{
	struct outcome *outcome = run_bench("all_reduce --ranks 3 -b 1K -e 1K -n 1 -d all -o all");

	cr_assert_eq(outcome->status, 0, "%s", outcome->text);
	/* Six of the operations are for the six types of integers alone. */
	cr_assert_eq(rows_of(outcome),
		RONDO_TYPE_COUNT * RONDO_OP_COUNT - (RONDO_TYPE_COUNT - 6) * 6, "%s",
		outcome->text);
}

Test(bench, root_minus_one_takes_each_rank_in_turn, .timeout = 60)
{
	struct outcome *outcome = run_bench("broadcast --ranks 3 -b 64 -e 64 -r -1");

	cr_assert_eq(rows_of(outcome), 3, "%s", outcome->text);
	for (int root = 0; root < 3; root++) {
		int printed;
		cr_assert_eq(sscanf(row_at(outcome, root), "%*u %*u %*s %*s %d", &printed), 1);
		cr_assert_eq(printed, root);
	}
}

/* The last word of the last row. */
static void expect_algorithm(const struct outcome *outcome, const char *name)
{
	const char *row = row_at(outcome, rows_of(outcome) - 1), *end;

	cr_assert_not_null(row, "%s", outcome->text);
	end = row + strcspn(row, "\n");
	cr_assert(strncmp(end - strlen(name) - 1, " ", 1) == 0 &&
			  strncmp(end - strlen(name), name, strlen(name)) == 0,
		"no %s in:\n%s", name, outcome->text);
}

/* Standard error is in the text, too: it warns of what is measured, and of nothing else. */
Test(bench, a_row_names_the_algorithm_that_ran_and_a_warning_the_one_that_did_not, .timeout = 120)
{
	struct outcome *outcome = run_bench("all_reduce --ranks 4 -b 64 -e 64 --algo ring");

	expect_algorithm(outcome, "ring");
	cr_assert_null(strstr(outcome->text, "WARN"), "%s", outcome->text);
	outcome = run_bench("broadcast --ranks 4 -b 64 -e 64 --algo binomial -I -a 1");
	expect_algorithm(outcome, "binomial");
	cr_assert_null(strstr(outcome->text, "WARN"), "%s", outcome->text);

	outcome = run_bench("alltoall --ranks 4 -b 64 -e 64 --algo binomial");
	expect_algorithm(outcome, "linear");
	cr_assert(strstr(outcome->text,
			  "[0] RONDO WARN RONDO_ALGO=binomial is not used for all_to_all on 4 "
			  "ranks: it has no such collective; linear runs it\n"),
		"%s", outcome->text);
	cr_assert_null(strstr(strstr(outcome->text, "WARN") + 1, "WARN"), "%s", outcome->text);

	expect_algorithm(run_bench("sendrecv --ranks 2 -b 64 -e 64"), "-");
	expect_algorithm(run_bench("all_reduce -b 64 -e 64"), "-");
	expect_algorithm(run_bench("all_reduce --ranks 2 -b 1M -e 1M --registered --algo two_shot"),
		"two_shot");
}

Test(bench, ranks_may_be_threads_or_both, .timeout = 60)
{
	struct outcome *outcome = run_bench("all_reduce -t 3 -b 64 -e 64");
	cr_assert_eq(outcome->status, 0, "%s", outcome->text);
	cr_assert(strstr(outcome->text, "#  Rank  2 Group  0 Pid"), "%s", outcome->text);

	outcome = run_bench("all_reduce --ranks 2 -g 2 -b 64 -e 64");
	cr_assert_eq(outcome->status, 0, "%s", outcome->text);
	cr_assert(strstr(outcome->text, "#  Rank  3 Group  0 Pid"), "%s", outcome->text);
	cr_assert(
		strstr(outcome->text, "# -g 2: the buffers are host memory"), "%s", outcome->text);
}

Test(bench, calls_can_be_queued_on_a_stream, .timeout = 60)
{
	struct outcome *outcome = run_bench("all_reduce --ranks 2 -b 64 -e 64 -z 0");

	cr_assert_eq(outcome->status, 0, "%s", outcome->text);
	cr_assert(strstr(outcome->text, "queued on a stream"));
}

Test(bench, what_cannot_run_in_place_says_so, .timeout = 60)
{
	struct outcome *outcome = run_bench("sendrecv --ranks 2 -b 64 -e 64");
	cr_assert(strstr(row_at(outcome, 0), "N/A     N/A     N/A     N/A  -\n"), "%s",
		outcome->text);
}

/* ---- Wrong values ---- */

static int do_nothing(const struct bench_call *call)
{
	(void)call;
	return 0;
}

/* In a forked rank; its exit status is 0 when all is found as it must be. */
static int measure_nothing(void *argument)
{
	struct bench_collective idle = *bench_collective_find("all_reduce");
	struct bench_options options = { .collective = &idle, .iterations = 1, .checks = 2 };
	struct bench_row row = {
		.collective = &idle, .size = 4000, .count = 1000, .type = RONDO_F32, .root = -1
	};
	static float send[1000], recv[1000];
	rondo_comm *comm;

	(void)argument;
	idle.run = do_nothing;
	if (rondo_comm_create(&comm, NULL) ||
		bench_measure(&options, comm, NULL, send, recv, NULL, &row))
		return 2;
	rondo_comm_destroy(comm);
	/* Two rounds of checking; in place, one rank's sum is what it sent. */
	return row.out_of_place.wrong != 2 * 1000 || row.in_place.wrong != 0;
}

Test(bench, a_collective_that_does_nothing_is_found_wrong_in_every_element, .timeout = 30)
{
	cr_assert_eq(rondo_spawn(1, measure_nothing, NULL), 0);
}

/* ---- Files ---- */

static void skip_spaces(const char **at)
{
	while (isspace((unsigned char)**at))
		++*at;
}

static bool skip_json(const char **at);

static bool skip_string(const char **at)
{
	if (*(*at)++ != '"')
		return false;
	for (; **at != '"'; ++*at) {
		if ((unsigned char)**at < 0x20)
			return false;
		if (**at == '\\' && *++*at == '\0')
			return false;
	}
	++*at;
	return true;
}

/* Members up to the closing bracket; in an object, each has a key. */
static bool skip_members(const char **at, char close)
{
	++*at;
	skip_spaces(at);
	if (**at == close) {
		++*at;
		return true;
	}
	for (;;) {
		skip_spaces(at);
		if (close == '}') {
			if (!skip_string(at))
				return false;
			skip_spaces(at);
			if (*(*at)++ != ':')
				return false;
		}
		if (!skip_json(at))
			return false;
		skip_spaces(at);
		if (**at == close) {
			++*at;
			return true;
		}
		if (*(*at)++ != ',')
			return false;
	}
}

static bool skip_json(const char **at)
{
	static const char *const words[] = { "true", "false", "null" };

	skip_spaces(at);
	if (**at == '{' || **at == '[')
		return skip_members(at, **at == '{' ? '}' : ']');
	if (**at == '"')
		return skip_string(at);
	for (int i = 0; i < 3; i++) {
		if (strncmp(*at, words[i], strlen(words[i])) == 0) {
			*at += strlen(words[i]);
			return true;
		}
	}
	char *end;
	strtod(*at, &end);
	bool number = end != *at && (isdigit((unsigned char)**at) || **at == '-');
	*at = end;
	return number;
}

static bool is_json(const char *text)
{
	if (!skip_json(&text))
		return false;
	skip_spaces(&text);
	return *text == '\0';
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

static char *read_file(const char *path)
{
	static char text[OUTPUT_MAX];
	FILE *file = fopen(path, "r");

	cr_assert_not_null(file, "%s", path);
	text[fread(text, 1, OUTPUT_MAX - 1, file)] = '\0';
	fclose(file);
	return text;
}

Test(bench, the_checkers_of_this_file_tell_right_from_wrong)
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
	struct outcome *outcome = run_bench("sendrecv --ranks 2 -b 8 -e 32 -f 2 -I -J '%s'", path);
	const char *text = read_file(path);

	cr_assert_eq(outcome->status, 0, "%s", outcome->text);
	cr_assert(is_json(text), "%s", text);
	int rows = 0;
	for (const char *at = text; (at = strstr(at, "{\"size\": ")); at++)
		rows++;
	cr_assert_eq(rows, 3);
	cr_assert(strstr(text, "\"in_place\": null"));
	cr_assert(strstr(text, "\"p99_us\": "));
	cr_assert(strstr(text, "\"out_of_bounds\": {\"count\": 0, \"okay\": true}"));
	remove_scratch(path);
}

Test(bench, json_without_checks_has_null_for_wrong, .timeout = 60)
{
	const char *path = scratch_path("x.json");
	struct outcome *outcome = run_bench("barrier --ranks 2 -c 0 -J '%s'", path);
	const char *text = read_file(path);

	cr_assert_eq(outcome->status, 0, "%s", outcome->text);
	cr_assert(is_json(text), "%s", text);
	cr_assert(strstr(text, "\"nwrong\": null"));
	cr_assert(strstr(text, "\"algorithm\": \""), "%s", text);
	remove_scratch(path);
}

Test(bench, the_plot_is_well_formed_and_has_a_curve_a_half, .timeout = 60)
{
	const char *path = scratch_path("plot.svg");
	struct outcome *outcome =
		run_bench("all_reduce --ranks 2 -b 0 -e 64K -f 4 --svg '%s'", path);
	const char *text = read_file(path);
	int curves = 0;

	cr_assert_eq(outcome->status, 0, "%s", outcome->text);
	cr_assert(is_xml(text), "%s", text);
	cr_assert_null(strstr(text, "nan"));
	cr_assert_null(strstr(text, "inf"));
	for (const char *at = text; (at = strstr(at, "<polyline")); at++)
		curves++;
	cr_assert_eq(curves, 4);
	remove_scratch(path);
}

Test(bench, a_file_that_cannot_be_written_is_known_before_anything_is_measured, .timeout = 60)
{
	static const char *const options[] = { "-J", "--svg" };

	for (int i = 0; i < 2; i++) {
		struct outcome *outcome = run_bench("barrier --ranks 2 %s /nowhere/x", options[i]);

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
	cr_assert_eq(strncmp(read_file(path), "old\n", 4), 0);
	cr_assert_eq(run_bench("barrier -J '%s'", path)->status, 0);
	cr_assert(is_json(read_file(path)), "%s", read_file(path));
	remove_scratch(path);
}

Test(bench, a_table_that_nobody_can_read_is_a_failure, .timeout = 60)
{
	static const char *const runs[] = { "barrier --ranks 2", "init --ranks 2 -n 1",
		"barrier --ranks 2 --sweep --quick", "floor --quick" };

	for (size_t i = 0; i < sizeof(runs) / sizeof(*runs); i++) {
		struct outcome *outcome = run_bench("%s 3>&1 >/dev/full 2>&3", runs[i]);

		cr_assert_eq(outcome->status, 1, "%s: %s", runs[i], outcome->text);
		cr_assert(strstr(outcome->text, "cannot write standard output"), "%s: %s", runs[i],
			outcome->text);
	}
}

/* ---- The command line ---- */

static void refused(const char *arguments, const char *reason)
{
	struct outcome *outcome = run_bench("%s", arguments);
	char *newline = strchr(outcome->text, '\n');

	cr_assert_eq(outcome->status, 2, "%s: %s", arguments, outcome->text);
	cr_assert(strstr(outcome->text, reason), "%s: %s", arguments, outcome->text);
	cr_assert(newline && newline[1] == '\0', "not one line: %s", outcome->text);
}

Test(bench, bad_input_gives_one_line_that_names_it, .timeout = 60)
{
	refused("", "which collective?");
	refused("all_reduced", "'all_reduced' is no collective; did you mean all_reduce? (see");
	refused("al_to_al", "'al_to_al' is no collective; did you mean all_to_all? (see");
	refused("flor", "'flor' is no collective; did you mean floor? (see");
	refused("zzz", "'zzz' is no collective (see");
	refused("all_reduce -d flaot", "or all, not 'flaot'; did you mean float? (see");
	refused("all_reduce -o summ", "or all, not 'summ'; did you mean sum? (see");
	refused("all_reduce --rank 2 --minbyte 8 --itters 3",
		"--itters is no option here; did you mean --iters? (see");
	refused("all_reduce --nonsense=3", "--nonsense=3 is no option here (see");
	refused("all_reduce --quick=3", "--quick takes no value (see");
	refused("all_reduce -b 1X", "--minbytes wants a size such as 8, 64K, 128M or 1G, not '1X'");
	refused("all_reduce -e -5", "--maxbytes wants a size");
	refused("all_reduce -b 8M -e 4M", "-b 8388608 is more than -e 4194304");
	refused("all_reduce -n 0", "--iters wants a number from 1 to 100000000, not '0'");
	refused("all_reduce -n 5x", "not '5x'");
	refused("all_reduce -o xor", "--op wants sum, prod, min, max, avg, band, ");
	refused("all_reduce -d float8", "--datatype wants");
	refused("all_reduce -f 0", "--stepfactor wants");
	refused("all_reduce -i 0", "--stepbytes wants a size above 0, not '0'");
	refused("broadcast -r x", "--root wants a number from -1 to ");
	refused("all_reduce -a 4", "--average wants a number from 0 to 3, not '4'");
	refused("all_reduce -q", "-q is no option here");
	refused("all_reduce --bogus", "--bogus is no option here");
	refused("all_reduce -b", "-b needs a value");
	refused("all_reduce 8", "'8' is left over");
	refused("all_reduce --ranks 5000", "--ranks wants");
	refused("all_reduce -o band", "band is for integers, not for float: give -d int32");
	refused("sendrecv --ranks 2 --device", "sendrecv takes GPU memory on a stream: give -z 0");
	refused("init --ranks 2 -J x",
		"--output_file and --svg go with a collective, not with init");
	refused("floor --svg x", "go with a collective, not with floor");
	refused("all_reduce --ranks 2 --sweep -J x", "go with a collective, not with --sweep");
}

Test(bench, buffers_that_this_host_cannot_hold_are_refused, .timeout = 30)
{
	refused("all_reduce --ranks 2 -b 8 -e 1000000G",
		"two buffers of -e 1073741824000000 bytes for each of 2 ranks take 4000000.0 GiB, "
		"and "
		"this host has ");
}

/* ---- Ranks ---- */

Test(bench, processes_that_mpirun_started_are_the_ranks, .timeout = 60)
{
	static const char *const mpis[] = { "OMPI_COMM_WORLD", "PMI" };

	for (int i = 0; i < 2; i++) {
		const char *mpi = mpis[i];
		struct outcome *outcome =
			run_script("export MASTER_PORT=%d %s_SIZE=2; "
				   "%s_RANK=1 '%s' barrier & %s_RANK=0 '%s' barrier && wait $!",
				world_free_port(), mpi, mpi, RONDO_TOOL, mpi, RONDO_TOOL);

		cr_assert_eq(outcome->status, 0, "%s", outcome->text);
		cr_assert(strstr(outcome->text, "#  Rank  1 Group  0 Pid"), "%s", outcome->text);
		cr_assert_eq(rows_of(outcome), 1, "%s", outcome->text);
	}
}

Test(bench, a_launcher_that_makes_no_sense_is_one_line, .timeout = 30)
{
	static const char *const settings[] = { "WORLD_SIZE=2", "WORLD_SIZE=2 RANK=2",
		"WORLD_SIZE=2 RANK=x", "WORLD_SIZE=0 RANK=0" };

	for (int i = 0; i < 4; i++) {
		struct outcome *outcome = run_script("%s '%s' barrier", settings[i], RONDO_TOOL);

		cr_assert_eq(outcome->status, 1, "%s", outcome->text);
		cr_assert_str_eq(outcome->text,
			"rondo-bench: WORLD_SIZE is set, so it should be a number of "
			"processes, and RANK one below it\n");
	}
	cr_assert_eq(
		run_script("PMI_SIZE=2 PMI_RANK=0 '%s' barrier --ranks 2", RONDO_TOOL)->status, 2);
}

Test(bench, a_launcher_that_it_cannot_read_is_one_line_and_not_many_worlds, .timeout = 30)
{
	static const char *const options[] = { "", "--ranks 2", "-t 2" };

	for (int i = 0; i < 3; i++) {
		struct outcome *outcome = run_script(
			"SLURM_NTASKS=4 SLURM_PROCID=1 '%s' barrier %s", RONDO_TOOL, options[i]);

		cr_assert_eq(outcome->status, 2, "%s", outcome->text);
		cr_assert_str_eq(outcome->text,
			"rondo-bench: a launcher started several processes (SLURM_NTASKS=4), but "
			"RANK and WORLD_SIZE are not set, and each would run alone: start it with "
			"rondo-run, or set RANK=$SLURM_PROCID, WORLD_SIZE=$SLURM_NTASKS and "
			"MASTER_ADDR in each (RANK=0 WORLD_SIZE=1 where each is to run alone) (see "
			"rondo-bench --help)\n");
	}
	cr_assert_eq(run_script("SLURM_NTASKS=4 '%s' barrier", RONDO_TOOL)->status, 0);
	cr_assert_eq(run_script("SLURM_NTASKS=4 SLURM_PROCID=1 RANK=0 WORLD_SIZE=1 '%s' barrier",
			     RONDO_TOOL)
			     ->status,
		0);
}

Test(bench, a_comm_is_weighed_among_threads_of_processes, .timeout = 60)
{
	struct outcome *outcome = run_bench("init --ranks 2 -t 2 -n 1");

	cr_assert_eq(outcome->status, 0, "%s", outcome->text);
	cr_assert(strstr(outcome->text, "a comm of 4 ranks"), "%s", outcome->text);
}

/* Starts `rondo-bench all_reduce` for hours in a group of its own, and waits for its first row. */
static pid_t start_long_run(int *out)
{
	char *arguments[] = { "rondo-bench", "all_reduce", "--ranks", "4", "-b", "8", "-e", "8M",
		"-i", "8", "-n", "1000", NULL };
	char text[1 << 16];
	size_t length = 0;
	int ends[2];

	cr_assert_eq(pipe2(ends, O_CLOEXEC), 0);
	pid_t child = fork();
	if (child == 0) {
		setpgid(0, 0);
		dup2(ends[1], STDOUT_FILENO);
		execv(RONDO_TOOL, arguments);
		_exit(99);
	}
	cr_assert_gt(child, 0);
	close(ends[1]);
	do {
		ssize_t got = read(ends[0], text + length, sizeof(text) - 1 - length);
		cr_assert_gt(got, 0, "it ended early");
		length += (size_t)got;
		text[length] = '\0';
	} while (!strstr(text, "  float  "));
	*out = ends[0];
	return child;
}

/* To the whole group, as a terminal does it; then to the process that forked the ranks alone. */
Test(bench, an_interrupted_run_leaves_no_process, .timeout = 60)
{
	for (int alone = 0; alone < 2; alone++) {
		char text[4096];
		int out, status;
		pid_t child = start_long_run(&out);

		cr_assert_eq(kill(alone ? child : -child, SIGINT), 0);
		cr_assert_eq(waitpid(child, &status, 0), child);
		cr_assert(WIFSIGNALED(status) && WTERMSIG(status) == SIGINT);
		/* The pipe ends when the last process that could write to it has. */
		while (read(out, text, sizeof(text)) > 0)
			;
		close(out);
	}
}

Test(bench, what_is_wrong_on_every_rank_is_said_once, .timeout = 30)
{
	static const char *const options[] = { "--ranks 3 --algo bogus",
		"--ranks 2 -t 2 --algo bogus", "-t 3 --algo bogus", "--ranks 3 --device" };

	setenv("RONDO_DEVICE", "none", 1);
	for (int i = 0; i < 4; i++) {
		struct outcome *outcome = run_bench("barrier %s", options[i]);
		char *newline = strchr(outcome->text, '\n');

		cr_assert_eq(outcome->status, 1, "%s", outcome->text);
		cr_assert(newline && newline[1] == '\0', "not one line: %s", outcome->text);
	}
}

Test(bench, help_succeeds, .timeout = 30)
{
	static const char *const options[] = { "--help", "-h" };

	for (int i = 0; i < 2; i++) {
		struct outcome *outcome = run_bench("%s", options[i]);

		cr_assert_eq(outcome->status, 0);
		cr_assert_eq(strncmp(outcome->text, "usage: rondo-bench COLLECTIVE", 29), 0);
	}
}

Test(bench, names_may_be_spelled_as_elsewhere, .timeout = 60)
{
	static const char *const calls[] = { "all_to_all", "AllToAll", "allreduce -d FLOAT -o SUM",
		"reducescatter -d F32", "send_recv", "all-gather" };

	for (size_t i = 0; i < sizeof(calls) / sizeof(*calls); i++) {
		struct outcome *outcome = run_bench("%s --ranks 2 -b 64 -e 64", calls[i]);

		cr_assert_eq(outcome->status, 0, "%s: %s", calls[i], outcome->text);
	}
	cr_assert_eq(run_bench("all_to_all --ranks 2 -b 64 -e 64 --explain")->status, 0);
}

Test(bench, an_algorithm_or_transport_that_may_have_been_meant_is_suggested, .timeout = 30)
{
	struct outcome *outcome = run_bench("all_reduce --ranks 2 --algo dubling");

	cr_assert_eq(outcome->status, 1);
	cr_assert(strstr(outcome->text, "; did you mean doubling?\n"), "%s", outcome->text);
	outcome = run_bench("all_reduce --ranks 2 --transport tpc");
	cr_assert_eq(outcome->status, 1);
	cr_assert(strstr(outcome->text, "; did you mean tcp?"), "%s", outcome->text);
}

Test(bench, a_root_that_is_no_rank_is_one_line, .timeout = 60)
{
	struct outcome *outcome = run_bench("broadcast --ranks 2 -b 8 -e 8 -r 7");

	cr_assert_eq(outcome->status, 1, "%s", outcome->text);
	cr_assert_str_eq(
		outcome->text, "rondo-bench: --root 7 is no rank: give a number from 0 to 1\n");
}

Test(bench, an_operation_does_not_matter_to_what_does_not_reduce, .timeout = 60)
{
	struct outcome *outcome = run_bench("all_gather --ranks 2 -b 8 -e 8 -o band");

	cr_assert_eq(outcome->status, 0, "%s", outcome->text);
	cr_assert_eq(rows_of(outcome), 1, "%s", outcome->text);
}

Test(bench, the_floor_measures_what_it_promises, .timeout = 120)
{
	static const char *const parts[] = { "cache line, there and back", "copy      ordinary",
		"add      ordinary", "stream of 256K, both ways, each",
		"stream of  64M, both ways, each", "8-byte round trip, polling" };
	struct outcome *outcome = run_bench("floor --quick");

	if (sysconf(_SC_NPROCESSORS_ONLN) < 2)
		cr_skip_test("the floor takes two processors");
	cr_assert_eq(outcome->status, 0, "%s", outcome->text);
	for (size_t i = 0; i < sizeof(parts) / sizeof(*parts); i++)
		cr_assert(strstr(outcome->text, parts[i]), "no '%s' in:\n%s", parts[i],
			outcome->text);
	cr_assert_null(strstr(outcome->text, "nan"), "%s", outcome->text);
}

/* The number behind this text. */
static double number_after(const char *text, const char *words)
{
	const char *at = strstr(text, words);

	cr_assert_not_null(at, "no '%s' in:\n%s", words, text);
	return strtod(at + strlen(words), NULL);
}

Test(bench, init_tells_the_time_and_the_memory_of_a_comm, .timeout = 120)
{
	struct outcome *outcome = run_bench("init --ranks 2 -n 3");
	const char *text = outcome->text;

	cr_assert_eq(outcome->status, 0, "%s", text);
	cr_expect_not_null(strstr(text, "a comm of 2 ranks"), "%s", text);

	double median = number_after(text, "3 times, the slowest rank: median ");
	double least = number_after(text, ", least "), most = number_after(text, ", most ");

	/* In milliseconds: to make a comm is a matter of some, and of no minute. */
	cr_expect(0 < least && least <= median && median <= most && most < 60e3, "%s", text);

	double made = number_after(text, "once made: "), used;

	cr_expect(0 < made && made < 1 << 20, "%s", text);
	cr_expect_geq(number_after(text, "after calls of 8 B: "), made, "%s", text);
	/* The links' rooms are filled, at the least: some messages of 128 KiB. */
	used = number_after(text, "after calls of 16 MiB: ");
	cr_expect(used >= made + 128 && used < 1 << 20, "%s", text);
}

Test(bench, init_without_processes_says_how_to_have_some)
{
	struct outcome *outcome = run_bench("init");

	cr_assert_eq(outcome->status, 2);
	cr_assert(strstr(outcome->text, "--ranks N"), "%s", outcome->text);
}

/* ---- Choices ---- */

Test(bench, explain_lists_costs_and_ways_and_one_that_is_chosen, .timeout = 60)
{
	struct outcome *outcome = run_bench("all_reduce --ranks 2 -b 1K -e 1K --explain");
	const char *chosen = strstr(outcome->text, "; chosen, measured ");

	cr_assert_eq(outcome->status, 0, "%s", outcome->text);
	cr_assert(strstr(outcome->text, "#   near_way_ns "), "%s", outcome->text);
	cr_assert(strstr(outcome->text, "#   ring "), "%s", outcome->text);
	cr_assert(chosen && !strstr(chosen + 1, "; chosen"), "%s", outcome->text);
	cr_assert_eq(rows_of(outcome), 1);
}

Test(bench, a_sweep_compares_what_is_chosen_with_the_best, .timeout = 120)
{
	static const char *const collectives[] = { "all_reduce", "alltoall", "broadcast",
		"barrier" };

	for (size_t i = 0; i < sizeof(collectives) / sizeof(*collectives); i++) {
		struct outcome *outcome =
			run_bench("%s --ranks 2 -b 8 -e 512 -f 8 --sweep --quick", collectives[i]);
		int points = strcmp(collectives[i], "barrier") == 0 ? 1 : 3;
		char footer[32];

		snprintf(footer, sizeof(footer), "of %d point%s\n", points, points == 1 ? "" : "s");
		cr_assert_eq(outcome->status, 0, "%s", outcome->text);
		cr_assert_eq(rows_of(outcome), points, "%s", outcome->text);
		cr_assert(strstr(outcome->text, footer), "%s", outcome->text);
	}
}

Test(bench, a_sweep_of_what_cannot_be_swept_is_refused, .timeout = 30)
{
	refused("floor --sweep", "--sweep and --explain go with a collective, not with floor");
	refused("all_reduce --ranks 2 --sweep -d all",
		"one type, operation and root, in the caller");
	refused("all_reduce --ranks 2 --sweep -z 0", "one type, operation and root, in the caller");
	refused("all_reduce --sweep", "--sweep needs ranks in processes");
	refused("sendrecv --ranks 2 --sweep", "there are no algorithms of sendrecv");
	refused("sendrecv --ranks 2 --explain", "there are no algorithms of sendrecv");
	refused("all_reduce --ranks 2 --device --sweep", "leave out --device");
	refused("all_reduce --ranks 2 --device --explain", "leave out --device");
	refused("init --ranks 2 --sweep",
		"--sweep and --explain go with a collective, not with init");
}
