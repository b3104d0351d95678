/* rondo-bench replay: a recorded program of calls, made by the ranks of this job. */
#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "bench_run.h"

#define GAP_US 40000

static char path[64];

static void make_path(void)
{
	snprintf(path, sizeof(path), "/tmp/rondo_bench_replay_XXXXXX");
	close(mkstemp(path));
}

static void remove_path(void)
{
	unlink(path);
}

TestSuite(bench_replay, .init = make_path, .fini = remove_path, .timeout = 120);

/* The columns of a row, and the times behind the table. */
struct row {
	char collective[32];
	long block, calls;
	double recorded_us, measured_us;
};

static struct row row_of(const struct bench_outcome *outcome, const char *collective, long block)
{
	struct row row = { 0 };

	for (int i = 0; i < rows_of(outcome); i++)
		if (sscanf(row_at(outcome, i), "%31s %ld %ld %lf %lf", row.collective, &row.block,
			    &row.calls, &row.recorded_us, &row.measured_us) == 5 &&
			strcmp(row.collective, collective) == 0 && row.block == block)
			return row;
	cr_assert_fail("no %s of %ld bytes in:\n%s", collective, block, outcome->text);
	return row;
}

static void read_whole(
	const struct bench_outcome *outcome, double *recorded_us, double *measured_us)
{
	const char *at = strstr(outcome->text, "recorded ");

	while (at && sscanf(at, "recorded %lf us, measured %lf us", recorded_us, measured_us) != 2)
		at = strstr(at + 1, "recorded ");
	cr_assert_not_null(at, "%s", outcome->text);
}

static void write_rank(FILE *file, int rank)
{
	fprintf(file,
		"{\"name\":\"process_name\",\"ph\":\"M\",\"pid\":%d,\"args\":{\"comm\":\"0\","
		"\"rank\":%d,\"ranks\":2}},\n",
		rank, rank);
}

/* A step that is all of its rank's part in a call, of 20 us. */
static void write_part(
	FILE *file, int rank, int number, const char *collective, int root, int block, int begin_us)
{
	fprintf(file,
		"{\"name\":\"recv\",\"cat\":\"%s\",\"ph\":\"X\",\"pid\":%d,\"tid\":0,\"ts\":%d,"
		"\"args\":{\"call\":%d,\"algorithm\":\"linear\",\"root\":%d,\"target\":%d,"
		"\"block_bytes\":%d,\"piece\":0,\"step\":0,\"chunk\":0,\"peer\":-1,\"to\":-1,"
		"\"bytes\":%d,\"wait_us\":15,\"work_us\":5}},\n",
		collective, rank, begin_us, number, root,
		strcmp(collective, "transfer") == 0 ? 1 - root : 0, block, block);
}

static void write_calls(void)
{
	static const char *const collectives[] = { "all_reduce", "reduce_scatter", "all_gather",
		"broadcast", "reduce", "all_to_all", "gather", "scatter", "transfer", "barrier" };
	FILE *file = fopen(path, "w");

	cr_assert_not_null(file);
	fprintf(file, "[\n");
	for (int rank = 0; rank < 2; rank++) {
		write_rank(file, rank);
		for (int i = 0; i < 10; i++) {
			int block = i == 9 ? 0 : 1000 + i;

			write_part(file, rank, i, collectives[i], 0, block, i * 100);
			if ((i >= 3 && i <= 4) || (i >= 6 && i <= 8))
				write_part(file, rank, i + 10, collectives[i], 1, block, i * 100);
		}
		/* Rank 1 computes before its last call. */
		write_part(file, rank, 30, "barrier", 0, 0, 2000 + rank * GAP_US);
	}
	fclose(file);
}

Test(bench_replay, every_recorded_call_is_made_once)
{
	struct bench_outcome *outcome;

	write_calls();
	outcome = run_bench("replay %s --ranks 2", path);
	cr_assert_eq(outcome->status, 0, "%s", outcome->text);
	cr_expect(strstr(outcome->text, "# 16 calls of 2 ranks"), "%s", outcome->text);
	cr_expect_eq(rows_of(outcome), 10, "%s", outcome->text);
	for (int i = 0; i < 9; i++) {
		static const char *const names[] = { "all_reduce", "reduce_scatter", "all_gather",
			"broadcast", "reduce", "all_to_all", "gather", "scatter", "transfer" };
		struct row row = row_of(outcome, names[i], 1000 + i);

		cr_expect_eq(row.calls, i == 3 || i == 4 || i >= 6 ? 2 : 1, "%s", outcome->text);
		cr_expect_eq(row.recorded_us, 20, "%s", outcome->text);
		cr_expect_gt(row.measured_us, 0, "%s", outcome->text);
	}
}

/* From the first rank's begin to the last one's end. How long the other one waits in its call is
   the scheduler's to say. */
Test(bench_replay, a_rank_computes_between_calls_as_it_did)
{
	double recorded_us, measured_us;
	struct bench_outcome *outcome;

	write_calls();
	outcome = run_bench("replay %s --ranks 2", path);
	cr_assert_eq(outcome->status, 0, "%s", outcome->text);
	read_whole(outcome, &recorded_us, &measured_us);
	cr_expect_eq(recorded_us, 2020 + GAP_US, "%s", outcome->text);
	cr_expect_geq(measured_us, GAP_US, "%s", outcome->text);
}

Test(bench_replay, what_ranks_recorded_they_make_again)
{
	struct bench_outcome *outcome =
		run_script("rm %s; RONDO_TRACE=%s '%s' all_reduce --ranks 2 "
			   "-b 1K -e 1K -n 10 -c 0",
			path, path, RONDO_BENCH);
	struct row row;

	cr_assert_eq(outcome->status, 0, "%s", outcome->text);
	outcome = run_bench("replay %s --ranks 2", path);
	cr_assert_eq(outcome->status, 0, "%s", outcome->text);
	row = row_of(outcome, "all_reduce", 1024);
	cr_expect_geq(row.calls, 20, "%s", outcome->text);
}

/* The files of several hosts lie apart. */
Test(bench_replay, a_trace_that_lacks_a_rank_is_refused)
{
	FILE *file = fopen(path, "w");
	struct bench_outcome *outcome;

	fprintf(file, "[\n");
	write_rank(file, 0);
	write_part(file, 0, 1, "barrier", 0, 0, 0);
	fclose(file);
	outcome = run_bench("replay %s --ranks 2", path);
	cr_expect_eq(outcome->status, 1);
	cr_expect(strstr(outcome->text, "lacks rank 1 of 2: join the files of all hosts\n"), "%s",
		outcome->text);
}

Test(bench_replay, what_it_cannot_make_gets_one_line)
{
	struct bench_outcome *outcome;
	FILE *file;

	expect_bench_refused("replay", "replay wants a TRACE");
	expect_bench_refused("replay a b", "'b' is left over");
	expect_bench_refused("replay a --registered", "--registered is not for replay");
	expect_bench_refused("replay a -t 2 -d half", "--datatype is not for replay, which takes");
	outcome = run_bench("replay /nowhere.json --ranks 2");
	cr_expect_eq(outcome->status, 1);
	cr_expect(strstr(outcome->text, "cannot read /nowhere.json"), "%s", outcome->text);
	write_calls();
	outcome = run_bench("replay %s --ranks 3", path);
	cr_expect_eq(outcome->status, 1);
	cr_expect(strstr(outcome->text, "are of 2 ranks, and this job has 3: give --ranks 2"), "%s",
		outcome->text);
	cr_expect_eq(strcspn(outcome->text, "\n") + 1, strlen(outcome->text), "%s", outcome->text);
	file = fopen(path, "w");
	fprintf(file, "[\n");
	write_rank(file, 0);
	write_rank(file, 1);
	for (int step = 0; step < 2; step++)
		fprintf(file,
			"{\"name\":\"send\",\"cat\":\"all_gather\",\"ph\":\"X\",\"pid\":0,"
			"\"tid\":0,\"ts\":0,\"args\":{\"call\":1,\"algorithm\":\"ring\",\"root\":0,"
			"\"target\":0,\"block_bytes\":9000000000000000000,\"piece\":0,\"step\":%d,"
			"\"chunk\":0,\"peer\":-1,\"to\":1,\"bytes\":9000000000000000000,"
			"\"wait_us\":0,\"work_us\":0}},\n",
			step);
	fclose(file);
	outcome = run_bench("replay %s --ranks 2", path);
	cr_expect_eq(outcome->status, 1);
	cr_expect(strstr(outcome->text, "has calls larger than this host's memory"), "%s",
		outcome->text);
}
