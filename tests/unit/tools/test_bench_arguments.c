/* The command line of rondo-bench: accepted arguments, and refusals in one line. */
#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>

#include "bench_run.h"
#include "arguments.h"
#include "bench/options.h"

Test(bench, bad_input_gives_one_line_that_names_it, .timeout = 60)
{
	expect_bench_refused("", "which collective?");
	expect_bench_refused(
		"all_reduced", "'all_reduced' is no collective; did you mean all_reduce? (see");
	expect_bench_refused(
		"al_to_al", "'al_to_al' is no collective; did you mean all_to_all? (see");
	expect_bench_refused("flor", "'flor' is no collective; did you mean floor? (see");
	expect_bench_refused("zzz", "'zzz' is no collective (see");
	expect_bench_refused(
		"all_reduce -d flaot", "or all, not 'flaot'; did you mean float? (see");
	expect_bench_refused("all_reduce -o summ", "or all, not 'summ'; did you mean sum? (see");
	expect_bench_refused("all_reduce --rank 2 --minbyte 8 --itters 3",
		"--itters is no option here; did you mean --iters? (see");
	expect_bench_refused("all_reduce --nonsense=3", "--nonsense=3 is no option here (see");
	expect_bench_refused("all_reduce --warmup-iters x", "--warmup_iters wants a number");
	expect_bench_refused("all_reduce --warm x", "--warmup_iters wants a number");
	expect_bench_refused("all_reduce --m 8", "--m may be --minbytes, --maxbytes (see");
	expect_bench_refused("all_reduce --quick=3", "--quick takes no value (see");
	expect_bench_refused("all_reduce -b 1X",
		"--minbytes wants a size such as 8, 64K or 128M, from 0 to 131072G, not '1X'");
	expect_bench_refused("barrier -e 999999G", "from 0 to 131072G, not '999999G'");
	expect_bench_refused("all_reduce -e -5", "--maxbytes wants a size");
	expect_bench_refused("all_reduce -b 8M -e 4M", "-b 8388608 is more than -e 4194304");
	expect_bench_refused(
		"all_reduce -n 0", "--iters wants a number from 1 to 100000000, not '0'");
	expect_bench_refused("all_reduce -n 5x", "not '5x'");
	expect_bench_refused("all_reduce -o xor", "--op wants sum, prod, min, max, avg, band, ");
	expect_bench_refused("all_reduce -d float8", "--datatype wants");
	expect_bench_refused("all_reduce -f 0", "--stepfactor wants");
	expect_bench_refused("all_reduce -i 0", "from 1 to 131072G, not '0'");
	expect_bench_refused("broadcast -r x", "--root wants a number from -1 to ");
	expect_bench_refused("all_reduce -a 4", "--average wants a number from 0 to 3, not '4'");
	expect_bench_refused("all_reduce -q", "-q is no option here");
	expect_bench_refused("all_reduce --bogus", "--bogus is no option here");
	expect_bench_refused("all_reduce -b", "-b needs a value");
	expect_bench_refused("all_reduce 8", "'8' is left over");
	expect_bench_refused("all_reduce --ranks 5000", "--ranks wants");
	expect_bench_refused("all_reduce --ranks 2,4", "--ranks takes one number with all_reduce");
	expect_bench_refused("init --ranks 2,,4", "--ranks wants");
	expect_bench_refused(
		"init --ranks 1,2,3,4,5,6,7,8,9,10,11,12,13,14,15,16,17", "--ranks wants");
	expect_bench_refused("init", "init forks its ranks, one in each process: give --ranks N");
	expect_bench_refused("init --ranks 2 -t 2", "init forks its ranks");
	expect_bench_refused(
		"all_reduce -o band", "band is for integers, not for float: give -d int32");
	expect_bench_refused(
		"sendrecv --ranks 2 --device", "sendrecv takes GPU memory on a stream: give -z 0");
	expect_bench_refused("init --ranks 2 -J x",
		"--output_file and --svg go with a collective, not with init");
	expect_bench_refused("floor --svg x", "go with a collective, not with floor");
	expect_bench_refused(
		"all_reduce --ranks 2 --sweep -J x", "go with a collective, not with --sweep");
}

Test(bench, buffers_that_this_host_cannot_hold_are_refused, .timeout = 30)
{
	expect_bench_refused("all_reduce --ranks 2 -b 8 -e 100000G",
		"two buffers of -e 107374182400000 bytes for each of 2 ranks take 400000.0 GiB, "
		"and "
		"this host has ");
}

Test(bench, a_sweep_of_what_cannot_be_swept_is_refused, .timeout = 30)
{
	expect_bench_refused(
		"floor --sweep", "--sweep and --explain go with a collective, not with floor");
	expect_bench_refused("all_reduce --ranks 2 --sweep -d all",
		"one type, operation and root, in the caller");
	expect_bench_refused(
		"all_reduce --ranks 2 --sweep -z 0", "one type, operation and root, in the caller");
	expect_bench_refused("all_reduce --sweep", "--sweep needs ranks in processes");
	expect_bench_refused("sendrecv --ranks 2 --sweep", "there are no algorithms of sendrecv");
	expect_bench_refused("sendrecv --ranks 2 --explain", "there are no algorithms of sendrecv");
	expect_bench_refused("all_reduce --ranks 2 --device --sweep", "leave out --device");
	expect_bench_refused("all_reduce --ranks 2 --device --explain", "leave out --device");
	expect_bench_refused("init --ranks 2 --sweep",
		"--sweep and --explain go with a collective, not with init");
}

Test(bench, what_cannot_lie_between_two_calls_is_refused, .timeout = 30)
{
	expect_bench_refused("all_reduce --gap -1ms",
		"--gap wants a time such as 10us or 1ms, at most 10s, not '-1ms'");
	expect_bench_refused("all_reduce --gap 5", "--gap wants a time");
	expect_bench_refused("all_reduce --gap 0ms", "--gap wants a time");
	expect_bench_refused("all_reduce --gap 11s", "--gap wants a time");
	expect_bench_refused("all_reduce --walk 0",
		"--walk wants a size such as 8, 64K or 128M, from 1 to 131072G, not '0'");
	expect_bench_refused("all_reduce --ranks 2 --walk 100000G",
		"two buffers of -e 33554432 bytes, and --walk, for each of 2 ranks take ");
	expect_bench_refused("floor --touch",
		"--touch, --gap, --walk and --sleep go with a collective, not with floor");
	expect_bench_refused(
		"all_reduce --ranks 2 --sweep --sleep", "go with a collective, not with --sweep");
	expect_bench_refused(
		"all_reduce --ranks 2 --device --gap 1ms", "on host memory: leave out --device");
}

Test(bench, help_succeeds, .timeout = 30)
{
	static const char *const options[] = { "--help", "-h" };

	for (int i = 0; i < 2; i++) {
		struct bench_outcome *outcome = run_bench("%s", options[i]);

		cr_assert_eq(outcome->status, 0);
		cr_assert_eq(strncmp(outcome->text, "usage: rondo-bench COLLECTIVE", 29), 0);
	}
}

Test(bench, names_may_be_spelled_as_elsewhere, .timeout = 60)
{
	static const char *const calls[] = { "all_to_all", "AllToAll", "allreduce -d FLOAT -o SUM",
		"reducescatter -d F32", "send_recv", "all-gather" };

	for (size_t i = 0; i < sizeof(calls) / sizeof(*calls); i++) {
		struct bench_outcome *outcome = run_bench("%s --ranks 2 -b 64 -e 64", calls[i]);

		cr_assert_eq(outcome->status, 0, "%s: %s", calls[i], outcome->text);
	}
	cr_assert_eq(run_bench("all_to_all --ranks 2 -b 64 -e 64 --explain")->status, 0);
}

Test(bench, an_algorithm_or_transport_that_may_have_been_meant_is_suggested, .timeout = 30)
{
	struct bench_outcome *outcome = run_bench("all_reduce --ranks 2 --algo dubling");

	cr_assert_eq(outcome->status, 1);
	cr_assert(strstr(outcome->text, "; did you mean doubling?\n"), "%s", outcome->text);
	outcome = run_bench("all_reduce --ranks 2 --transport tpc");
	cr_assert_eq(outcome->status, 1);
	cr_assert(strstr(outcome->text, "; did you mean tcp?"), "%s", outcome->text);
}

Test(bench, a_root_that_is_no_rank_is_one_line, .timeout = 60)
{
	struct bench_outcome *outcome = run_bench("broadcast --ranks 2 -b 8 -e 8 -r 7");

	cr_assert_eq(outcome->status, 1, "%s", outcome->text);
	cr_assert_str_eq(
		outcome->text, "rondo-bench: --root 7 is no rank: give a number from 0 to 1\n");
}

Test(bench, an_operation_does_not_matter_to_what_does_not_reduce, .timeout = 60)
{
	struct bench_outcome *outcome = run_bench("all_gather --ranks 2 -b 8 -e 8 -o band");

	cr_assert_eq(outcome->status, 0, "%s", outcome->text);
	cr_assert_eq(rows_of(outcome), 1, "%s", outcome->text);
}

Test(bench, init_without_processes_says_how_to_have_some)
{
	struct bench_outcome *outcome = run_bench("init");

	cr_assert_eq(outcome->status, 2);
	cr_assert(strstr(outcome->text, "--ranks N"), "%s", outcome->text);
}

/* ---- Sizes ----------------------------------------------------------------------------------- */

/* The sizes that rondo-bench measures. */

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
	int64_t ps = 77;

	for (size_t i = 0; i < sizeof(texts) / sizeof(*texts); i++)
		cr_assert_not(arguments_parse_time(texts[i], &ps), "'%s'", texts[i]);
	cr_assert_eq(ps, 77);
	cr_assert(arguments_parse_time("5ns", &ps) && ps == 5000);
	cr_assert(arguments_parse_time("1.5us", &ps) && ps == 1500000);
	cr_assert(arguments_parse_time("20ms", &ps) && ps == 20000000000);
	cr_assert(arguments_parse_time("3s", &ps) && ps == 3000000000000);
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
