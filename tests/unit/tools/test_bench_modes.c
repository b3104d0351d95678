/* rondo-bench beside its table: floor, init, --explain and --sweep. */
#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "bench_run.h"

Test(bench, the_floor_measures_what_it_promises, .timeout = 300)
{
	static const char *const parts[] = { "cache line, there and back", "copy      ordinary",
		"add      ordinary", "stream of 256K, both ways, each",
		"stream of  64M, both ways, each", "8-byte round trip, polling" };
	struct bench_outcome *outcome = run_bench("floor --quick");

	if (sysconf(_SC_NPROCESSORS_ONLN) < 2)
		cr_skip_test("the floor takes two processors");
	cr_assert_eq(outcome->status, 0, "%s", outcome->text);
	for (size_t i = 0; i < sizeof(parts) / sizeof(*parts); i++)
		cr_assert(strstr(outcome->text, parts[i]), "no '%s' in:\n%s", parts[i],
			outcome->text);
	cr_assert_null(strstr(outcome->text, "nan"), "%s", outcome->text);
}

/* The row of the table for so many ranks: create, destroy, and four columns of memory. */
static void read_row(const char *text, int ranks, double row[6])
{
	char head[32];
	const char *at;
	int got;

	snprintf(head, sizeof(head), "\n%8d ", ranks);
	at = strstr(text, head);
	cr_assert_not_null(at, "no row of %d ranks in:\n%s", ranks, text);
	got = sscanf(at + strlen(head), "%lf %lf %lf %lf %lf %lf", &row[0], &row[1], &row[2],
		&row[3], &row[4], &row[5]);
	cr_assert_eq(got, 6, "%s", text);
}

Test(bench, init_prints_the_time_and_the_memory_of_a_comm, .timeout = 120)
{
	struct bench_outcome *outcome = run_bench("init --ranks 2,3 -n 3");
	double row[6];

	cr_assert_eq(outcome->status, 0, "%s", outcome->text);
	for (int ranks = 2; ranks <= 3; ranks++) {
		read_row(outcome->text, ranks, row);
		/* In ms: some to create a comm, and less than a minute. In KiB: at least a page. */
		for (int i = 0; i < 2; i++)
			cr_expect(0 < row[i] && row[i] < 60e3, "%s", outcome->text);
		for (int i = 2; i < 6; i++)
			cr_expect(4 <= row[i] && row[i] < 1 << 20, "%s", outcome->text);
		/* At least some messages of 128 KiB are in the links' buffers. */
		cr_expect(row[5] >= 128, "%s", outcome->text);
	}
	cr_expect(strstr(outcome->text, "# growth: needs 3 numbers of ranks from 16 on"), "%s",
		outcome->text);
}

Test(bench, init_draws_and_fits_what_it_measures, .timeout = 240)
{
	struct bench_outcome *outcome =
		run_bench("init --ranks 16,17,18 -n 1 --transport shm --svg /dev/stdout");

	cr_assert_eq(outcome->status, 0, "%s", outcome->text);
	cr_expect(strstr(outcome->text, "#   memory of another   "), "%s", outcome->text);
	cr_expect(strstr(outcome->text, "</svg>"), "%s", outcome->text);
	outcome = run_bench("init --ranks 2 -n 1 --svg /nowhere/x");
	cr_assert_eq(outcome->status, 1);
	cr_expect(strstr(outcome->text, "cannot write /nowhere/x"), "%s", outcome->text);
}

Test(bench, explain_lists_costs_and_ways_and_one_that_is_chosen, .timeout = 60)
{
	struct bench_outcome *outcome = run_bench("all_reduce --ranks 2 -b 1K -e 1K --explain");
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
		struct bench_outcome *outcome =
			run_bench("%s --ranks 2 -b 8 -e 512 -f 8 --sweep --quick", collectives[i]);
		int points = strcmp(collectives[i], "barrier") == 0 ? 1 : 3;
		char footer[32];

		snprintf(footer, sizeof(footer), "of %d point%s\n", points, points == 1 ? "" : "s");
		cr_assert_eq(outcome->status, 0, "%s", outcome->text);
		cr_assert_eq(rows_of(outcome), points, "%s", outcome->text);
		cr_assert(strstr(outcome->text, footer), "%s", outcome->text);
	}
}
