/* ctest label: threads */
/* rondo-plan diff: traces beside their plans, with the first step that differs. */
#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/json.h"
#include "exec/algorithms.h"
#include "plan/commands.h"
#include "plan/difference.h"
#include "plan/document.h"
#include "plan/timeline.h"
#include "rondo.h"
#include "text.h"

#define RANKS 3
#define SIZE 3000
#define PIECES 2
#define START_NS 1000000

static struct plan_problem made;
static char path[64];

static void make_path(void)
{
	snprintf(path, sizeof(path), "/tmp/rondo_plan_diff_XXXXXX");
	close(mkstemp(path));
}

static void remove_path(void)
{
	unlink(path);
}

TestSuite(plan_diff, .init = make_path, .fini = remove_path);

/* ---- A trace of the plans ------------------------------------------------------------------- */

/* A step of the trace: as the plan has it, and when. A test changes some. */
struct line {
	int rank, piece, step;
	struct rd_step it;
	int64_t begin_ns, wait_ns, work_ns;
	bool missing;
};

static struct line lines[200];
static int line_count;
static bool drops[RANKS];

static void plan_lines(void)
{
	struct plan_options options = { .ranks = RANKS, .hosts = 1 };

	plan_problem_lay(&made, &options);
	rd_costs_default(&made.costs);
	made.costs.cores = RANKS;
	line_count = 0;
	for (int rank = 0; rank < RANKS; rank++) {
		struct rd_problem problem = { .size = RANKS, .rank = rank };
		struct rd_plan *plan;

		cr_assert_eq(rd_plan_create(&plan, rd_algorithm_called("ring"), &problem), 0);
		for (int piece = 0; piece < PIECES; piece++)
			for (int step = 0; step < plan->step_count; step++)
				lines[line_count++] = (struct line){ rank, piece, step,
					plan->steps[step], START_NS, 0, 0, false };
		rd_plan_destroy(plan);
	}
}

static void write_head(FILE *file, int rank)
{
	fprintf(file,
		"{\"name\":\"process_name\",\"ph\":\"M\",\"pid\":%d,\"args\":{\"name\":\"rank\","
		"\"comm\":\"0\",\"rank\":%d,\"ranks\":%d}},\n"
		"{\"name\":\"thread_name\",\"ph\":\"M\",\"pid\":%d,\"tid\":0,"
		"\"args\":{\"name\":\"channel 0\",\"place\":%d,\"group\":0}},\n",
		rank, rank, RANKS, rank, rank);
	if (drops[rank])
		fprintf(file,
			"{\"name\":\"process_labels\",\"ph\":\"M\",\"pid\":%d,"
			"\"args\":{\"labels\":\"3 earlier steps dropped\"}},\n",
			rank);
}

/* 1000 bytes a part; pieces of 512. */
static void write_line(FILE *file, const struct line *line)
{
	const struct rd_step *step = &line->it;
	char kind[PLAN_KIND_SIZE];

	fprintf(file,
		"{\"name\":\"%s\",\"cat\":\"all_reduce\",\"ph\":\"X\",\"pid\":%d,\"tid\":0,"
		"\"ts\":%lld.%03d,\"dur\":0.000,\"args\":{\"call\":7,\"algorithm\":\"ring\","
		"\"root\":0,\"target\":0,\"block_bytes\":%d,\"piece\":%d,\"step\":%d,\"chunk\":%d,"
		"\"peer\":%d,\"to\":%d,\"bytes\":512,\"wait_us\":%lld.%03d,\"work_us\":%lld.%03d}},\n",
		plan_kind(step, kind), line->rank, (long long)line->begin_ns / 1000,
		(int)(line->begin_ns % 1000), SIZE, line->piece, line->step, step->chunk,
		step->peer, step->to, (long long)line->wait_ns / 1000, (int)(line->wait_ns % 1000),
		(long long)line->work_ns / 1000, (int)(line->work_ns % 1000));
}

static void write_trace(void)
{
	FILE *file = fopen(path, "w");

	cr_assert_not_null(file);
	fprintf(file, "[\n");
	for (int rank = 0; rank < RANKS; rank++)
		write_head(file, rank);
	for (int i = 0; i < line_count; i++)
		if (!lines[i].missing)
			write_line(file, &lines[i]);
	fclose(file);
}

static struct plan_difference find(double within)
{
	struct plan_options options = { .source = path };
	struct plan_difference difference = { 0 };
	struct plan_trace *trace;

	write_trace();
	cr_assert_eq(plan_trace_read(&trace, path), 0, "%s", rondo_last_error());
	cr_assert_eq(trace->call_count, 1);
	cr_assert_eq(plan_difference_find(
			     &difference, &made, &options, trace, trace->calls, NULL, within),
		0, "%s", rondo_last_error());
	return difference;
}

static void finish(struct plan_difference *difference)
{
	struct plan_trace *trace = (struct plan_trace *)difference->trace;

	plan_difference_finish(difference);
	plan_trace_destroy(trace);
}

/* The trace of a machine that has exactly the predicted times. */
static void time_lines(void)
{
	struct plan_difference difference = find(2);

	for (int i = 0; i < line_count; i++) {
		const struct plan_predicted *predicted = &difference.predicted[i];

		lines[i].begin_ns = START_NS + predicted->begin_ns - predicted->wait_ns;
		lines[i].wait_ns = predicted->wait_ns;
		lines[i].work_ns = predicted->end_ns - predicted->begin_ns;
	}
	finish(&difference);
}

/* ---- Steps ---------------------------------------------------------------------------------- */

Test(plan_diff, a_trace_of_the_plan_differs_in_nothing)
{
	plan_lines();
	time_lines();

	struct plan_difference difference = find(1);

	cr_expect_eq(difference.simulated.pieces, PIECES);
	cr_expect_eq(difference.other_rank, -1);
	cr_expect_eq(difference.late, -1);
	cr_expect_eq(difference.predicted_ns, difference.simulated.simulation.end_ps / 1000);
	cr_expect_eq(difference.call->end_ns - difference.call->begin_ns, difference.predicted_ns);
	finish(&difference);
}

/* It is the first of all ranks, by its place in the plan. */
Test(plan_diff, the_first_other_step_is_named)
{
	static const struct {
		int line;
		const char *member;
	} changes[] = { { 2, "chunk" }, { 3, "peer" }, { 4, "kind" } };

	for (size_t i = 0; i < sizeof(changes) / sizeof(*changes); i++) {
		plan_lines();

		int each = line_count / RANKS, at = each + changes[i].line;
		struct rd_step *step = &lines[at].it;

		step->chunk += i == 0;
		step->peer = i == 1 ? (step->peer + 1) % RANKS : step->peer;
		step->kind = i == 2 ? RD_STEP_COPY : step->kind;
		lines[2 * each + changes[i].line + 1].it.chunk++;

		struct plan_difference difference = find(2);

		cr_expect_eq(difference.other_rank, 1, "%s", changes[i].member);
		cr_expect_eq(difference.other, at);
		cr_expect_eq(difference.other_piece, 0);
		cr_expect_eq(difference.other_step, changes[i].line);
		cr_expect_not(difference.left_out);
		cr_expect_not(plan_difference_is_planned(&difference, at));
		finish(&difference);
	}
}

Test(plan_diff, a_missing_step_is_named)
{
	plan_lines();
	lines[line_count - 1].missing = true;

	struct plan_difference difference = find(2);

	cr_expect_not(difference.left_out);
	cr_expect_eq(difference.other, -1);
	cr_expect_eq(difference.other_rank, RANKS - 1);
	cr_expect_eq(difference.other_piece, PIECES - 1);
	cr_expect_eq(difference.other_step, lines[line_count - 1].step);
	finish(&difference);
}

Test(plan_diff, a_call_whose_steps_were_dropped_is_left_out)
{
	plan_lines();
	lines[0].missing = true;
	drops[0] = true;

	struct plan_difference difference = find(2);

	cr_expect(difference.left_out);
	finish(&difference);
}

/* ---- Times ---------------------------------------------------------------------------------- */

/* Each wait begins where the step before it ended. */
static void check_waits(const struct plan_difference *difference)
{
	for (int i = 0; i < line_count; i++) {
		const struct plan_predicted *it = &difference->predicted[i];
		bool is_first = i == 0 || lines[i].rank != lines[i - 1].rank;

		cr_expect_eq(it->begin_ns - it->wait_ns, is_first ? 0 : it[-1].end_ns);
	}
}

Test(plan_diff, predicted_times_are_those_of_a_replay)
{
	plan_lines();

	struct plan_difference difference = find(2);
	struct plan_timeline timeline;
	struct plan_options options = { .algorithm = "ring",
		.ranks = RANKS,
		.hosts = 1,
		.size = SIZE,
		.piece_size = 512,
		.pieces = PIECES };

	check_waits(&difference);
	cr_assert_eq(plan_timeline_create(&timeline, &made, &options), 0, "%s", rondo_last_error());
	cr_expect_eq(timeline.all_pieces, PIECES);
	for (int i = 0; i < line_count; i++) {
		const struct plan_predicted *predicted = &difference.predicted[i];
		size_t at =
			plan_timeline_at(&timeline, lines[i].piece, lines[i].rank, lines[i].step);

		cr_expect_eq(predicted->end_ns, timeline.schedule->times[at].end_ns, "line %d", i);
		cr_expect_eq(predicted->begin_ns, timeline.schedule->times[at].begin_ns);
	}
	plan_timeline_destroy(&timeline);
	finish(&difference);
}

/* All later steps of the rank move with it; their own lengths stay. */
static void delay(int at, int64_t wait_ns)
{
	lines[at].wait_ns += wait_ns;
	for (int i = at + 1; i < line_count && lines[i].rank == lines[at].rank; i++)
		lines[i].begin_ns += wait_ns;
}

Test(plan_diff, the_first_other_time_is_named)
{
	plan_lines();
	time_lines();

	int each = line_count / RANKS;
	int64_t usual_ns = lines[each + 1].wait_ns + lines[each + 1].work_ns;

	delay(each + 1, 2 * usual_ns);
	delay(each + 3, 10 * usual_ns);

	struct plan_difference difference = find(2.9);

	cr_expect_eq(difference.late, each + 1);
	cr_expect_eq(difference.other_rank, -1);
	finish(&difference);
	difference = find(3.1);
	cr_expect_eq(difference.late, each + 3);
	finish(&difference);
}

/* ---- As text -------------------------------------------------------------------------------- */

static char *text_of(struct plan_options options)
{
	char *text;
	size_t size;
	FILE *out = open_memstream(&text, &size);

	options.source = path;
	options.within = 2;
	cr_assert_eq(plan_diff(&made, &options, out), 0, "%s", rondo_last_error());
	fclose(out);
	return text;
}

/* Rank 1 waits too long in its second step, and rank 2 misses its last. */
static void write_late_trace(void)
{
	plan_lines();
	time_lines();
	delay(line_count / RANKS + 1, 5000000);
	lines[line_count - 1].missing = true;
	write_trace();
}

Test(plan_diff, it_is_written_as_text)
{
	write_late_trace();

	char *text = text_of((struct plan_options){ .call = -1 });

	cr_expect_eq(count_of(text, "\n"), 3, "%s", text);
	cr_expect_eq(
		count_of(text, "call 7: ring all_reduce, 3 ranks, 2.93 KiB a block in 2 pieces: "),
		1, "%s", text);
	cr_expect_eq(
		count_of(text, "first other step: rank 2, piece 1, step 5: the trace has no step "
			       "there, the plan has recv of chunk "),
		1, "%s", text);
	cr_expect_eq(count_of(text, "first other time: rank 1, piece 0, step 1 (reduce_forward of "
				    "chunk 2, peer 0, to 2): waited 5 ms and worked "),
		1, "%s", text);
	free(text);
	text = text_of((struct plan_options){ .call = 7 });
	cr_expect_eq(count_of(text, "\n"), 3 + line_count - 1 + 2 * RANKS, "%s", text);
	cr_expect_eq(count_of(text, "\n*    0    1 "), 1, "%s", text);
	free(text);
}

/* Transfers count by pair of ranks. */
Test(plan_diff, calls_of_one_number_are_told_apart)
{
	static const struct {
		const char *collective, *algorithm;
		int root, target;
		const char *heading;
	} calls[] = {
		{ "transfer", "linear", 0, 1, "8 B a block in 1 piece, from 0 to 1: " },
		{ "transfer", "linear", 0, 2, "8 B a block in 1 piece, from 0 to 2: " },
		{ "broadcast", "binomial", 2, 0, "8 B a block in 1 piece, root 2: " },
	};
	FILE *file = fopen(path, "w");

	plan_lines();
	fprintf(file, "[\n");
	for (int rank = 0; rank < RANKS; rank++)
		write_head(file, rank);
	for (int i = 0; i < 3; i++)
		fprintf(file,
			"{\"name\":\"send\",\"cat\":\"%s\",\"ph\":\"X\",\"pid\":0,\"tid\":0,\"ts\":0.000,"
			"\"args\":{\"call\":7,\"algorithm\":\"%s\",\"root\":%d,\"target\":%d,"
			"\"block_bytes\":8,\"piece\":0,\"step\":0,\"chunk\":0,\"peer\":-1,\"to\":1,"
			"\"bytes\":8,\"wait_us\":0.000,\"work_us\":0.000}},\n",
			calls[i].collective, calls[i].algorithm, calls[i].root, calls[i].target);
	fclose(file);

	char *text = text_of((struct plan_options){ .call = -1 });

	for (int i = 0; i < 3; i++)
		cr_expect_eq(count_of(text, calls[i].heading), 1, "%s", text);
	/* Each has plans of its own. */
	cr_expect_eq(count_of(text, "the plan has send of chunk 0, peer -1, to 2"), 1, "%s", text);
	free(text);
	text = text_of((struct plan_options){ .call = -1, .json = true });
	cr_expect_eq(count_of(text, "\"root\": 0, \"target\": 2, "), 1, "%s", text);
	free(text);
}

/* No time is predicted for a step that is not the plan's. */
Test(plan_diff, it_is_written_for_programs)
{
	write_late_trace();
	lines[line_count - 2].it.chunk++;
	write_trace();

	char *text = text_of((struct plan_options){ .call = -1, .tsv = true });

	cr_expect_eq(count_of(text, "\n"), 1 + line_count - 1);
	cr_expect_eq(count_of(text, "\ttime\n"), 1);
	cr_expect_eq(count_of(text, "\t"), 19 * line_count);
	free(text);
	text = text_of((struct plan_options){ .call = -1, .json = true });

	struct rd_json json;

	cr_assert_eq(rd_json_parse(&json, "diff", text, strlen(text)), 0, "%s", rondo_last_error());
	cr_expect_eq(count_of(text, "\"predicted_work_ns\": "), line_count - 2);
	cr_expect_eq(count_of(text, "\"other_time\": \"rank 1, piece 0, step 1 "), 1);
	rd_json_finish(&json);
	free(text);
}
