/* The sizes that rondo-bench measures. */
#include <criterion/criterion.h>

#include <stdlib.h>
#include <string.h>

#include "arguments.h"
#include "bench/options.h"

static size_t parsed(const char *text)
{
	size_t size = 0;

	cr_assert(arguments_parse_size(text, &size), "%s", text);
	return size;
}

Test(bench_options, suffixes_are_powers_of_1024)
{
	cr_assert_eq(parsed("0"), 0);
	cr_assert_eq(parsed("8"), 8);
	cr_assert_eq(parsed("1K"), 1024);
	cr_assert_eq(parsed("1.5k"), 1536);
	cr_assert_eq(parsed("128M"), 128 << 20);
	cr_assert_eq(parsed("2G"), (size_t)2 << 30);
	cr_assert_eq(parsed("4KiB"), 4096);
	cr_assert_eq(parsed("4MB"), 4 << 20);
}

Test(bench_options, what_is_no_size_is_refused)
{
	static const char *const texts[] = { "", "K", "-1", "+1", "1X", "1KK", "inf", "nan", "1e30",
		" 1", "1 " };
	size_t size = 77;

	for (size_t i = 0; i < sizeof(texts) / sizeof(*texts); i++)
		cr_assert_not(
			arguments_parse_size(texts[i], &size), "'%s' became %zu", texts[i], size);
	cr_assert_eq(size, 77);
}

Test(bench_options, times_have_a_unit)
{
	static const char *const texts[] = { "", "5", "ms", "-1ms", "1m", "1mss", "inf s",
		"1e30s" };
	int64_t ns = 77;

	for (size_t i = 0; i < sizeof(texts) / sizeof(*texts); i++)
		cr_assert_not(bench_time_parse(texts[i], &ns), "'%s'", texts[i]);
	cr_assert_eq(ns, 77);
	cr_assert(bench_time_parse("5ns", &ns) && ns == 5);
	cr_assert(bench_time_parse("1.5us", &ns) && ns == 1500);
	cr_assert(bench_time_parse("20ms", &ns) && ns == 20000000);
	cr_assert(bench_time_parse("3s", &ns) && ns == 3000000000);
}

static struct bench_options options_of(int argc, char **argv)
{
	struct bench_options options;

	cr_assert(bench_options_read(&options, argc, argv));
	return options;
}

Test(bench_options, sizes_multiply_by_the_factor_or_add_the_step)
{
	char *by_factor[] = { "rondo-bench", "all_reduce", "-b", "8", "-e", "100", "-f", "3",
		NULL };
	char *by_step[] = { "rondo-bench", "all_reduce", "-b", "0", "-e", "20", "-i", "10", NULL };
	struct bench_options factor = options_of(8, by_factor), step = options_of(8, by_step);

	cr_assert_eq(bench_size_next(&factor, RONDO_F32, 8), 24);
	cr_assert_eq(bench_size_next(&factor, RONDO_F32, 24), 72);
	cr_assert_eq(bench_size_next(&factor, RONDO_F32, 72), 0);
	cr_assert_eq(bench_size_next(&step, RONDO_F32, 0), 10);
	cr_assert_eq(bench_size_next(&step, RONDO_F32, 10), 20);
	cr_assert_eq(bench_size_next(&step, RONDO_F32, 20), 0);
}

Test(bench_options, a_factor_gets_away_from_zero)
{
	char *arguments[] = { "rondo-bench", "all_reduce", "-b", "0", "-e", "16", "-f", "2", "-d",
		"double", NULL };
	struct bench_options options = options_of(10, arguments);

	cr_assert_eq(bench_size_next(&options, RONDO_F64, 0), 8);
	cr_assert_eq(bench_size_next(&options, RONDO_I8, 0), 1);
	cr_assert_eq(bench_size_next(&options, RONDO_F64, 8), 16);
}

Test(bench_options, without_options_they_are_those_of_nccl_tests)
{
	char *arguments[] = { "rondo-bench", "all_reduce", NULL };
	struct bench_options options = options_of(2, arguments);

	cr_assert_eq(options.least, 32 << 20);
	cr_assert_eq(options.most, 32 << 20);
	cr_assert_eq(options.iterations, 20);
	cr_assert_eq(options.warmup, 5);
	cr_assert_eq(options.checks, 1);
	cr_assert_eq(options.type, RONDO_F32);
	cr_assert_eq(options.op, RONDO_SUM);
	cr_assert_eq(options.average, BENCH_SLOWEST);
}

Test(bench_options, who_sleeps_does_so_for_a_millisecond_or_the_gap)
{
	char *sleep[] = { "rondo-bench", "all_reduce", "--sleep", NULL };
	char *gap[] = { "rondo-bench", "all_reduce", "--sleep", "--gap", "3us", NULL };
	struct bench_options options = options_of(3, sleep);

	cr_assert_eq(options.between.gap_ns, 1000000);
	cr_assert(options.percentiles);
	cr_assert_eq(options_of(5, gap).between.gap_ns, 3000);
}

Test(bench_options, counts_are_those_of_one_block_where_there_are_blocks)
{
	const struct bench_collective *gather = bench_collective_find("all_gather");
	const struct bench_collective *reduce = bench_collective_find("all_reduce");

	cr_assert_eq(bench_collective_count(reduce, 1000, RONDO_F32, 3), 250);
	cr_assert_eq(bench_collective_count(gather, 1000, RONDO_F32, 3), 83);
	cr_assert_eq(bench_collective_send_count(gather, 83, 3), 83);
	cr_assert_eq(bench_collective_recv_count(gather, 83, 3), 249);
	cr_assert_eq(bench_collective_factor(reduce, 4), 1.5);
	cr_assert_eq(bench_collective_factor(gather, 4), 0.75);
	cr_assert_eq(bench_collective_factor(bench_collective_find("broadcast"), 4), 1);
}
