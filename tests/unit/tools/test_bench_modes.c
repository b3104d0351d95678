/* rondo-bench beside its table: floor, init, --explain and --sweep. */
#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "bench_run.h"

Test(bench, the_floor_measures_what_it_promises, .timeout = 120)
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

/* The number that follows these words. */
static double number_after(const char *text, const char *words)
{
	const char *at = strstr(text, words);

	cr_assert_not_null(at, "no '%s' in:\n%s", words, text);
	return strtod(at + strlen(words), NULL);
}

Test(bench, init_prints_the_time_and_the_memory_of_a_comm, .timeout = 120)
{
	struct bench_outcome *outcome = run_bench("init --ranks 2 -n 3");
	const char *text = outcome->text;

	cr_assert_eq(outcome->status, 0, "%s", text);
	cr_expect_not_null(strstr(text, "a comm of 2 ranks"), "%s", text);

	double median = number_after(text, "3 times, the slowest rank: median ");
	double least = number_after(text, ", least "), most = number_after(text, ", most ");

	/* In ms: some to create a comm, and less than a minute. */
	cr_expect(0 < least && least <= median && median <= most && most < 60e3, "%s", text);

	double made = number_after(text, "once made: "), used;

	cr_expect(0 < made && made < 1 << 20, "%s", text);
	cr_expect_geq(number_after(text, "after calls of 8 B: "), made, "%s", text);
	/* At least the links' buffers are in use: some messages of 128 KiB. A measurement that was
	   made again has used them before. */
	used = number_after(text, "after calls of 16 MiB: ");
	cr_expect(used >= made && used >= 128 && used < 1 << 20, "%s", text);
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
