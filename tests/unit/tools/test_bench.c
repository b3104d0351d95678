/* The table of rondo-bench: its columns, a row for each call, and wrong values. */
#include <criterion/criterion.h>
#include <ctype.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "bench/runs.h"
#include "bench/measure.h"
#include "bench/percentile.h"
#include "bench_run.h"

/* ---- The table ---- */

Test(bench, the_header_has_the_columns_of_nccl_tests, .timeout = 60)
{
	struct bench_outcome *outcome = run_bench("all_reduce --ranks 2 -b 8 -e 64 -f 2");

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
	struct bench_outcome *outcome = run_bench("all_reduce --ranks 2 -b 8 -e 64K -f 8");
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
			cr_assert_eq(algbw[half], busbw[half]);
		}
	}
}

Test(bench, columns_end_under_their_heads, .timeout = 60)
{
	static const int ends[] = { 12, 26, 36, 44, 52, 61, 69, 77, 85, 94, 102, 110, 118 };
	struct bench_outcome *outcome =
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

Test(bench, percentiles_add_four_columns_to_each_half, .timeout = 60)
{
	struct bench_outcome *outcome = run_bench("all_gather --ranks 2 -b 64 -e 64 -I");
	double time[2], p50[2], p90[2], p99[2], most[2];

	cr_assert(strstr(outcome->text, "#wrong      p50      p90      p99      max     time"),
		"%s", outcome->text);
	int found = sscanf(row_at(outcome, 0),
		"%*u %*u %*s %*s %*d %lf %*f %*f %*f %lf %lf %lf %lf %lf %*f %*f %*f %lf %lf %lf "
		"%lf",
		&time[0], &p50[0], &p90[0], &p99[0], &most[0], &time[1], &p50[1], &p90[1], &p99[1],
		&most[1]);
	cr_assert_eq(found, 10, "%s", outcome->text);
	for (int half = 0; half < 2; half++) {
		cr_assert_leq(p50[half], p90[half]);
		cr_assert_leq(p90[half], p99[half]);
		cr_assert_leq(p99[half], most[half]);
	}
}

Test(bench, a_percentile_is_the_least_value_that_covers_its_share)
{
	double values[200];

	for (int i = 0; i < 200; i++)
		values[i] = i + 1;
	cr_assert_eq(bench_percentile(values, 200, 50), 100);
	cr_assert_eq(bench_percentile(values, 200, 90), 180);
	cr_assert_eq(bench_percentile(values, 200, 99), 198);
	cr_assert_eq(bench_percentile(values, 3, 50), 2);
	cr_assert_eq(bench_percentile(values, 1, 99), 1);
}

/* ---- Every collective ---- */

static void run_each(const char *transport)
{
	const struct bench_collective *collective;

	for (int i = 0; (collective = bench_collective_at(i)); i++) {
		struct bench_outcome *outcome =
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
	struct bench_outcome *outcome =
		run_bench("all_reduce --ranks 3 -b 1K -e 1K -n 1 -d all -o all");

	cr_assert_eq(outcome->status, 0, "%s", outcome->text);
	/* Six of the operations do not take the six types of floats. Complex numbers take three. */
	cr_assert_eq(rows_of(outcome), RONDO_TYPE_COUNT * RONDO_OP_COUNT - 6 * 6 - 2 * 8 - 1, "%s",
		outcome->text);
}

Test(bench, root_minus_one_takes_each_rank_in_turn, .timeout = 60)
{
	struct bench_outcome *outcome = run_bench("broadcast --ranks 3 -b 64 -e 64 -r -1");

	cr_assert_eq(rows_of(outcome), 3, "%s", outcome->text);
	for (int root = 0; root < 3; root++) {
		int printed;
		cr_assert_eq(sscanf(row_at(outcome, root), "%*u %*u %*s %*s %d", &printed), 1);
		cr_assert_eq(printed, root);
	}
}

/* The last word of the last row. */
static void expect_algorithm(const struct bench_outcome *outcome, const char *name)
{
	const char *row = row_at(outcome, rows_of(outcome) - 1), *end;

	cr_assert_not_null(row, "%s", outcome->text);
	end = row + strcspn(row, "\n");
	cr_assert(strncmp(end - strlen(name) - 1, " ", 1) == 0 &&
			  strncmp(end - strlen(name), name, strlen(name)) == 0,
		"no %s in:\n%s", name, outcome->text);
}

/* Standard error is in the text, too: it warns of the measured call, and of no other. */
Test(bench, a_row_names_the_algorithm_that_ran_and_a_warning_the_one_that_did_not, .timeout = 120)
{
	struct bench_outcome *outcome = run_bench("all_reduce --ranks 4 -b 64 -e 64 --algo ring");

	expect_algorithm(outcome, "ring");
	cr_assert_null(strstr(outcome->text, "WARN"), "%s", outcome->text);
	outcome = run_bench("broadcast --ranks 4 -b 64 -e 64 --algo binomial -I -a 1");
	expect_algorithm(outcome, "binomial");
	cr_assert_null(strstr(outcome->text, "WARN"), "%s", outcome->text);

	outcome = run_bench("alltoall --ranks 4 -b 64 -e 64 --algo binomial");
	expect_algorithm(outcome, "linear");
	cr_assert(strstr(outcome->text,
			  "[0] RONDO WARN algo=binomial is not used for all_to_all on 4 "
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
	struct bench_outcome *outcome = run_bench("all_reduce -t 3 -b 64 -e 64");
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
	struct bench_outcome *outcome = run_bench("all_reduce --ranks 2 -b 64 -e 64 -z 0");

	cr_assert_eq(outcome->status, 0, "%s", outcome->text);
	cr_assert(strstr(outcome->text, "queued on a stream"));
}

Test(bench, what_cannot_run_in_place_says_so, .timeout = 60)
{
	struct bench_outcome *outcome = run_bench("sendrecv --ranks 2 -b 64 -e 64");
	cr_assert(strstr(row_at(outcome, 0), "N/A     N/A     N/A     N/A  -\n"), "%s",
		outcome->text);
}

/* ---- Wrong values ---- */

static int do_nothing(const struct bench_call *call)
{
	(void)call;
	return 0;
}

/* In a forked rank; returns 0 if it finds the expected number of wrong elements. */
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
		bench_measure(&options, comm, NULL, send, recv, NULL, NULL, &row))
		return 2;
	rondo_comm_destroy(comm);
	/* Two rounds of checking; in place, one rank's sum is what it sent. */
	return row.out_of_place.wrong != 2 * 1000 || row.in_place.wrong != 0;
}

Test(bench, a_collective_that_does_nothing_is_found_wrong_in_every_element, .timeout = 30)
{
	cr_assert_eq(rondo_spawn(1, measure_nothing, NULL), 0);
}

Test(bench, the_growth_of_a_power_is_its_exponent)
{
	static const double x[] = { 16, 64, 32, 512 };
	static const double exponents[] = { 0, 1, 2, 0.5 };
	double y[4];

	for (int i = 0; i < 4; i++) {
		for (int k = 0; k < 4; k++)
			y[k] = 3 * pow(x[k], exponents[i]);
		/* Logarithms up to 7, some ten roundings of 2^-53. */
		cr_expect_float_eq(bench_init_exponent(x, y, 4), exponents[i], 1e-13);
	}
}
