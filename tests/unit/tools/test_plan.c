/* rondo-plan as its user sees it: text, lines, documents and pictures; and its timelines. */
#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/json.h"
#include "exec/algorithms.h"
#include "plan/timeline.h"
#include "rondo.h"
#include "text.h"
#include "program.h"
#include "tuner/eligible.h"

/* ---- Timelines ------------------------------------------------------------------------------ */

static void check_steps(const struct plan_timeline *timeline, int rank)
{
	const struct rd_schedule *schedule = timeline->schedule;
	int64_t last = 0;

	cr_assert_eq(schedule->rank_schedules[rank].count, timeline->plans[rank]->step_count);
	for (int step = 0; step < timeline->plans[rank]->step_count; step++) {
		const struct rd_event_time *times =
			&schedule->times[plan_timeline_at(timeline, 0, rank, step)];
		int sender = plan_timeline_sender(timeline, rank, step);

		cr_assert_geq(times->begin_ns, last, "steps overlap");
		cr_assert_geq(times->end_ns, times->begin_ns);
		cr_assert_leq(times->end_ns, timeline->end_ns);
		if (sender >= 0)
			cr_assert_geq(times->begin_ns, schedule->times[sender].end_ns,
				"a message is taken before it is sent");
		last = times->end_ns;
	}
}

/* Steps of the critical path do not overlap; the first begins at once, the last ends the call. */
static void check_path(const struct plan_timeline *timeline)
{
	const struct rd_schedule *schedule = timeline->schedule;
	int64_t first = INT64_MAX, last = 0, work = 0;

	for (int i = 0; i < timeline->pieces * schedule->event_count; i++) {
		const struct rd_event_time *times = &schedule->times[i];

		if (!timeline->critical[i])
			continue;
		first = times->begin_ns < first ? times->begin_ns : first;
		last = times->end_ns > last ? times->end_ns : last;
		work += times->end_ns - times->begin_ns;
	}
	cr_assert_eq(first, 0);
	cr_assert_eq(last, timeline->end_ns);
	cr_assert_leq(work, timeline->end_ns);
}

static void check_timeline(const struct rd_algorithm *algorithm, struct plan_options *options)
{
	static struct plan_problem made;
	struct plan_timeline timeline;

	options->algorithm = algorithm->name;
	cr_assert_eq(plan_problem_make(&made, options), 0, "%s", rondo_last_error());
	if (rd_algorithm_can(algorithm, &made.problem) != 1)
		return;
	cr_assert_eq(plan_timeline_create(&timeline, &made, options), 0, "%s", rondo_last_error());
	for (int rank = 0; rank < options->ranks; rank++)
		check_steps(&timeline, rank);
	if (options->ranks > 1)
		check_path(&timeline);
	/* One piece is the whole call, unless ranks share cores. */
	if (timeline.all_pieces == 1 && options->hosts == 1)
		cr_assert_eq(timeline.end_ns, timeline.predicted_ns);
	plan_timeline_destroy(&timeline);
}

Test(plan, steps_of_every_algorithm_follow_their_messages)
{
	static const int ranks[] = { 1, 2, 5, 8, 16 };

	for (int i = 0; rd_algorithms[i]; i++)
		for (int c = 0; c < RD_COLLECTIVE_COUNT; c++)
			for (size_t n = 0; n < sizeof(ranks) / sizeof(*ranks); n++)
				for (int hosts = 1; hosts <= 2 && hosts <= ranks[n]; hosts++) {
					struct plan_options options = { .collective = c,
						.ranks = ranks[n],
						.hosts = hosts,
						.pieces = 1,
						.size = 4096,
						.piece_size = 128 << 10 };

					if (c != RD_TRANSFER || ranks[n] > 1)
						check_timeline(rd_algorithms[i], &options);
				}
}

/* ---- Texts ----------------------------------------------------------------------------------- */

Test(plan, print_has_a_line_for_each_step)
{
	struct run shown = run("print", "ring", "all_reduce", "--ranks", "3", NULL);

	assert_went_well(&shown);
	cr_assert_not_null(
		strstr(shown.out, "ring all_reduce, 3 ranks, 1 MiB a block in 3 pieces"));
	cr_assert_not_null(strstr(shown.out, "  send chunk 2, in[2], to 1\n"));
	cr_assert_eq(count_of(shown.out, "\nrank "), 3);
	cr_assert_eq(count_of(shown.out, "flush step"), 3);
}

/* The tuner replays no more than 128. */
Test(plan, print_has_many_ranks)
{
	struct run shown = run("print", "ring", "all_reduce", "--ranks", "300", NULL);

	assert_went_well(&shown);
	cr_assert_eq(count_of(shown.out, "\nrank "), 300);
}

Test(plan, print_of_one_rank_has_no_other)
{
	struct run shown = run("print", "ring", "all_reduce", "--rank", "2", "--tsv", NULL);
	int lines = count_of(shown.out, "\n");

	assert_went_well(&shown);
	cr_assert_eq(strncmp(shown.out, "rank\tpiece\tstep\tkind\tchunk\t", 27), 0);
	cr_assert_gt(lines, 1);
	cr_assert_eq(count_of(shown.out, "\n2\t0\t"), lines - 1);
}

Test(plan, the_document_is_json)
{
	struct run shown = run("print", "one_shot", "all_reduce", "--json", NULL);
	struct rd_json json;

	assert_went_well(&shown);
	cr_assert_eq(rd_json_parse(&json, "the plan", shown.out, strlen(shown.out)), 0, "%s",
		rondo_last_error());
	cr_assert_not_null(strstr(shown.out, "\"direct_access\": true"));
	cr_assert_eq(count_of(shown.out, "{\"rank\": "), 4);
	rd_json_finish(&json);
}

Test(plan, compare_marks_the_best_of_each_size)
{
	struct run shown = run("compare", "all_reduce", "--ranks", "4", NULL);

	assert_went_well(&shown);
	cr_assert_eq(count_of(shown.out, "\n"), 2 + 8);
	cr_assert_geq(count_of(shown.out, "*"), 8);
	cr_assert_not_null(strstr(shown.out, " ring "));
	shown = run("compare", "all_reduce", "--tsv", NULL);
	assert_went_well(&shown);
	cr_assert_eq(strncmp(shown.out, "bytes\t", 6), 0);
	cr_assert_eq(count_of(shown.out, "*"), 0);
}

Test(plan, simulate_names_ranks_that_wait_and_busy_links)
{
	struct run shown = run("simulate", "ring", "all_reduce", "--hosts", "2", "--topology",
		"card", "--kill", "2@0ns", NULL);

	assert_went_well(&shown);
	cr_assert_not_null(strstr(shown.out, "rank 2 died after 0 ns; a rank on its host, such "
					     "as 3, reports that at once"));
	cr_assert_not_null(strstr(shown.out, "\n3 ranks would wait for ever\n"));
	cr_assert_not_null(strstr(shown.out, "\n  rank 3 for rank 2, since "));
	cr_assert_not_null(strstr(shown.out, "%  host 0 up: "));
}

Test(plan, simulate_has_lines_and_a_document)
{
	struct run shown = run("simulate", "ring", "all_reduce", "--topology", "card", "--tsv",
		"--slow", "1=1.5", NULL);
	struct rd_json json;

	assert_went_well(&shown);
	cr_assert_eq(count_of(shown.out, "\nrank\t"), 4);
	cr_assert_eq(count_of(shown.out, "\nlink\t"), 8);
	cr_assert_eq(count_of(shown.out, "\tended\t"), 4);
	shown = run("simulate", "ring", "all_reduce", "--topology", "card", "--json", "--jitter",
		"10", "--seed", "3", NULL);
	assert_went_well(&shown);
	cr_assert_eq(rd_json_parse(&json, "the result", shown.out, strlen(shown.out)), 0, "%s",
		rondo_last_error());
	cr_assert_eq(count_of(shown.out, "\"state\": \"ended\""), 4);
	rd_json_finish(&json);
}

/* Over a network the times are those of simulations: 2 * 3 messages of a quarter. */
Test(plan, compare_prices_an_algorithm_on_a_topology)
{
	struct run shown = run("compare", "ring", "all_reduce", "--topology",
		"card:ns=1000000,mbps=1000", "--json", NULL);
	struct rd_json json;
	double ns;

	assert_went_well(&shown);
	cr_assert_eq(rd_json_parse(&json, "the table", shown.out, strlen(shown.out)), 0, "%s",
		rondo_last_error());
	cr_assert_eq(count_of(shown.out, "{\"bytes\": "), 8);
	cr_assert_eq(count_of(shown.out, "\"ring\": "), 8);
	cr_assert_null(strstr(shown.out, "\"tree\": "));

	const char *last = strstr(shown.out, "{\"bytes\": 2097152, \"ns\": {\"ring\": ");

	cr_assert_not_null(last);
	ns = strtod(strstr(last, "ring") + 7, NULL);
	/* 2 ms of latency, 524,288 bytes of 8 ns; a chunk's pieces follow each other. */
	cr_assert_gt(ns, 6 * 524288 * 8.0 + 6 * 2e6);
	cr_assert_lt(ns, 1.1 * (6 * 524288 * 8.0 + 4 * 6 * 2e6));
	rd_json_finish(&json);
	shown = run("compare", "all_reduce", "--topology", "torus:2x2", "--tsv", NULL);
	assert_went_well(&shown);
	cr_assert_eq(count_of(shown.out, "\n"), 1 + 8);
	cr_assert_not_null(strstr(shown.out, "\thierarchical"));
	cr_assert_null(strstr(shown.out, "\ttwo_shot"), "it would read other hosts' memory");
}

/* Groups of as many ranks each, which pipelined needs: 4 ranks have them, 5 do not. */
Test(plan, prove_tries_groups_of_as_many_ranks_each)
{
	struct run shown = run("prove", "pipelined", "--ranks", "9", NULL);

	assert_went_well(&shown);
	cr_assert_not_null(
		strstr(shown.out, "  ok      all_reduce: proved for 4, 6, 8.."), "%s", shown.out);
}

Test(plan, prove_counts_sizes_that_are_proved_and_declined)
{
	struct run shown = run("prove", "one_round", "--ranks", "5", NULL);
	struct rd_json json;

	assert_went_well(&shown);
	/* 1 to 5, and three of 6 to 15; it is for 3 to 16 ranks. */
	cr_assert_not_null(strstr(shown.out, "  ok      all_reduce: proved for 3.."));
	cr_assert_not_null(strstr(shown.out, " ranks: 6 sizes; declined 2\n"));
	cr_assert_not_null(strstr(shown.out, "\n4 ok, 0 refused, 0 skipped\n"));
	shown = run("prove", "one_round", "all_reduce", "--ranks", "5", "--tsv", NULL);
	assert_went_well(&shown);
	cr_assert_eq(count_of(shown.out, "\n"), 2);
	cr_assert_not_null(strstr(shown.out, "\none_round\tall_reduce\tok\t6\t2\t0\tproved for "));
	shown = run("prove", "one_round", "--ranks", "5", "--json", NULL);
	assert_went_well(&shown);
	cr_assert_eq(rd_json_parse(&json, "the proofs", shown.out, strlen(shown.out)), 0, "%s",
		rondo_last_error());
	cr_assert_eq(count_of(shown.out, "\"verdict\": \"ok\""), 4);
	rd_json_finish(&json);
}

/* ---- Pictures ------------------------------------------------------------------------------- */

Test(plan, a_picture_has_each_step_that_takes_time)
{
	struct run shown = run("draw", "ring", "all_reduce", "--svg", "-", NULL);

	assert_went_well(&shown);
	/* A rank has eight steps; the flush takes no time. */
	cr_assert_eq(count_of(shown.out, "<title>rank "), 4 * 7);
	cr_assert_eq(
		count_of(shown.out, "class=\"message\"") + count_of(shown.out, "class=\"path\""),
		4 * 6);
	cr_assert_str_eq(shown.out + strlen(shown.out) - 7, "</svg>\n");
}

Test(plan, a_page_has_the_picture_in_it)
{
	struct run shown = run("draw", "tree", "broadcast", "--hosts", "2", "--html", "-", NULL);

	assert_went_well(&shown);
	cr_assert_eq(strncmp(shown.out, "<!DOCTYPE html>", 15), 0);
	cr_assert_eq(count_of(shown.out, "<svg "), 1);
	cr_assert_eq(count_of(shown.out, "src="), 0, "it needs another file");
	cr_assert_eq(count_of(shown.out, "class=\"host\""), 1, "the line between two hosts");
}

/* ---- Costs ---------------------------------------------------------------------------------- */

Test(plan, costs_of_a_file_count)
{
	char path[] = "/tmp/test_plan.XXXXXX", text[8192], wanted[64];
	struct rd_costs costs;
	int fd = mkstemp(path), length;

	rd_costs_default(&costs);
	for (int i = 0; i < RD_COST_POINT_COUNT; i++) {
		costs.links[RD_NEAR].way_ns[i] = 7000000;
		costs.links[RD_NEAR].busy_ns[i] = 0;
	}
	length = snprintf(text, sizeof(text), "[here, 2 ranks]\n");
	length += rd_costs_print(&costs, text + length, sizeof(text) - (size_t)length);
	length +=
		snprintf(text + length, sizeof(text) - (size_t)length, "[there]\nnear_way_ns 1\n");
	cr_assert_eq(write(fd, text, (size_t)length), length);

	struct run shown = run("print", "binomial", "broadcast", "--ranks", "2", "--size", "8",
		"--cores", "2", "--costs", path, NULL);

	assert_went_well(&shown);
	snprintf(wanted, sizeof(wanted), "predicted to take 7 ms");
	cr_assert_not_null(strstr(shown.out, wanted), "%s", shown.out);
	cr_assert_eq(pwrite(fd, "near_way_ns x\n", 14, 16), 14);
	shown = run("print", "binomial", "broadcast", "--costs", path, NULL);
	cr_assert_eq(shown.status, 1);
	cr_assert_not_null(strstr(shown.err, ":2: "), "%s", shown.err);
	close(fd);
	unlink(path);
}

/* ---- Plan files ----------------------------------------------------------------------------- */

static void make_file(char path[64])
{
	int fd;

	strcpy(path, "/tmp/rondo-test-XXXXXX.json");
	fd = mkstemps(path, 5);
	cr_assert_geq(fd, 0);
	close(fd);
	struct run made =
		run("export", "tree", "reduce", "-n", "6", "--root", "2", "-o", path, NULL);

	assert_went_well(&made);
}

/* The first line has the name. */
static const char *behind_heading(const struct run *run)
{
	return run->out + strcspn(run->out, "\n");
}

Test(plan, a_file_stands_for_an_algorithm_and_its_collective)
{
	char path[64];

	make_file(path);
	struct run file = run("print", path, NULL);
	struct run made = run("print", "tree", "reduce", "-n", "6", "--root", "2", NULL);

	assert_went_well(&file);
	assert_went_well(&made);
	cr_expect_str_eq(behind_heading(&file), behind_heading(&made));
	cr_expect_eq(strncmp(file.out, "tree_6 reduce, 6 ranks", 22), 0, "%s", file.out);
	unlink(path);
}

Test(plan, a_file_is_compared_with_the_algorithms)
{
	char path[64];

	make_file(path);
	struct run compared = run("compare", path, NULL);

	assert_went_well(&compared);
	cr_expect_not_null(strstr(compared.out, "tree_6"), "%s", compared.out);
	cr_expect_not_null(strstr(compared.out, "binomial"), "%s", compared.out);
	unlink(path);
}

/* Behind blanks; a GPU alone has nothing to do. */
Test(plan, an_execution_plan_of_mscclpp_is_known_by_its_brace)
{
	static const char text[] = "\n\t{\"name\": \"One\", \"collective\": \"allreduce\", "
				   "\"inplace\": true, \"gpus\": [{\"id\": 0, "
				   "\"input_chunks\": 1, \"output_chunks\": 1, "
				   "\"scratch_chunks\": 0}]}";
	char path[] = "/tmp/rondo-test-XXXXXX";
	int fd = mkstemp(path);

	cr_assert_geq(fd, 0);
	cr_assert_eq(write(fd, text, strlen(text)), (ssize_t)strlen(text));
	close(fd);
	struct run imported = run("import", path, "-o", "-", NULL);

	unlink(path);
	assert_went_well(&imported);
	cr_expect_not_null(strstr(imported.out, "\"name\": \"one\""), "%s", imported.out);
}

Test(plan, a_plan_file_is_imported_as_it_is)
{
	char path[] = "/tmp/rondo-test-XXXXXX";
	int fd = mkstemp(path);

	cr_assert_geq(fd, 0);
	close(fd);
	struct run exported = run("export", "tree", "all_reduce", "--ranks", "5", "-o", path, NULL);
	struct run printed = run("export", "tree", "all_reduce", "--ranks", "5", "-o", "-", NULL);
	struct run imported = run("import", path, "-o", "-", NULL);

	unlink(path);
	assert_went_well(&exported);
	assert_went_well(&imported);
	cr_expect_str_eq(imported.out, printed.out);
}

/* ---- Other files ---------------------------------------------------------------------------- */

/* The first of the trace's calls has plans, and the second none. */
Test(plan, a_diff_that_fails_late_writes_nothing)
{
	char path[] = "/tmp/rondo_plan_late_XXXXXX";
	FILE *file = fdopen(mkstemp(path), "w");

	fprintf(file, "[\n");
	for (int rank = 0; rank < 2; rank++)
		fprintf(file,
			"{\"name\":\"process_name\",\"ph\":\"M\",\"pid\":%d,\"args\":"
			"{\"comm\":\"0\",\"rank\":%d,\"ranks\":2}},\n"
			"{\"name\":\"thread_name\",\"ph\":\"M\",\"pid\":%d,\"tid\":0,"
			"\"args\":{\"place\":%d,\"group\":0}},\n",
			rank, rank, rank, rank);
	for (int call = 1; call <= 2; call++)
		fprintf(file,
			"{\"name\":\"send\",\"cat\":\"broadcast\",\"ph\":\"X\",\"pid\":0,\"tid\":0,"
			"\"ts\":%d.000,\"args\":{\"call\":%d,\"algorithm\":\"%s\",\"root\":0,"
			"\"target\":0,\"block_bytes\":8,\"piece\":0,\"step\":0,\"chunk\":0,"
			"\"peer\":-1,\"to\":1,\"bytes\":8,\"wait_us\":0.000,\"work_us\":1.000}},\n",
			call, call, call == 1 ? "binomial" : "elsewhere");
	fclose(file);
	for (int as = 0; as < 3; as++) {
		struct run got = as == 0   ? run("diff", path, NULL)
				 : as == 1 ? run("diff", path, "--json", NULL)
					   : run("diff", path, "--tsv", NULL);

		cr_expect_eq(got.status, 1);
		cr_expect_str_empty(got.out);
		cr_expect(strstr(got.err, "there is no algorithm 'elsewhere'"), "%s", got.err);
	}
	unlink(path);
}

/* Its plans are for blocks of 64 to 4096 bytes. */
Test(plan, compare_has_a_plan_file_in_its_range_alone)
{
	char path[] = "/tmp/rondo_plan_range_XXXXXX.json", line[200];
	struct run got = run("export", "ring", "all_reduce", "--ranks", "2", "-o", "-", NULL);
	FILE *file = fdopen(mkstemps(path, 5), "w");
	char *at = strstr(got.out, "\"ranks\"");

	assert_went_well(&got);
	fprintf(file, "%.*s\"least_bytes\": 64, \"most_bytes\": 4096, %s", (int)(at - got.out),
		got.out, at);
	fclose(file);
	got = run("compare", path, "--tsv", NULL);
	assert_went_well(&got);
	at = strtok(got.out, "\n");
	cr_assert(strstr(at, "\tring_2"), "%s", at);
	while ((at = strtok(NULL, "\n"))) {
		size_t bytes = strtoul(at, NULL, 10);

		snprintf(line, sizeof(line), "%s", at);
		cr_expect_eq(line[strlen(line) - 1] == '\t', bytes < 64 || bytes > 4096, "%s", at);
	}
	got = run("compare", path, "--json", NULL);
	assert_went_well(&got);
	cr_expect_eq(count_of(got.out, "\"ring_2\""), 3); /* 64, 512 and 4096 bytes */
	unlink(path);
}

/* Rank 3 lives longer than rank 2, its neighbour, and then nobody is left there. */
Test(plan, simulate_names_who_reports_a_death)
{
	struct run got = run("simulate", "ring", "all_reduce", "--hosts", "2", "--kill", "2@1us",
		"--kill", "3@5us", "--kill", "0@5us", NULL);

	assert_went_well(&got);
	cr_expect(strstr(got.out, "rank 0 died after 5 us; a rank on its host, such as 1, reports"),
		"%s", got.out);
	cr_expect(strstr(got.out, "rank 2 died after 1 us; a rank on its host, such as 3, reports"),
		"%s", got.out);
	cr_expect(
		strstr(got.out, "rank 3 died after 5 us; no rank is left on its host, and the end "
				"of its connection to rank 0 reports"),
		"%s", got.out);
}
