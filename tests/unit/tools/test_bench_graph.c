/* rondo-bench --cudagraph: calls in graphs. */
#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "bench/measure.h"
#include "bench/memory.h"
#include "bench/mirror.h"
#include "bench_run.h"
#include "gpus.h"

/* ENVIRONMENT rondo-bench ARGUMENTS, on a device's stream, with the JSON among the output. */
static const char *run_graph(const char *environment, const char *arguments, int status)
{
	struct bench_outcome *outcome = run_script(
		"%s '%s' %s --device -z 0 -J /dev/stdout", environment, RONDO_BENCH, arguments);

	cr_assert_eq(outcome->status, status, "%s: %s", arguments, outcome->text);
	return outcome->text;
}

static int times_in(const char *text, const char *words)
{
	int times = 0;

	for (const char *at = text; (at = strstr(at, words)); at++)
		times++;
	return times;
}

Test(bench_graph, the_iterations_are_launched_as_a_graph_and_checked, .timeout = 120)
{
	static const char *const calls[] = { "all_reduce", "reduce_scatter", "all_gather",
		"alltoall", "broadcast" };

	need_tests_gpus("2");
	for (size_t i = 0; i < sizeof(calls) / sizeof(*calls); i++)
		for (int threads = 0; threads < 2; threads++) {
			char arguments[128];
			const char *text;

			snprintf(arguments, sizeof(arguments),
				"%s %s 2 -b 64 -e 64K -f 1024 -n 10 -G 12 -c 2", calls[i],
				threads ? "-t" : "--ranks");
			text = run_graph("", arguments, 0);
			cr_expect(strstr(text, " graph: 12\n"), "%s", text);
			cr_expect(strstr(text, "\"graph\": 12"), "%s", text);
			/* Two sizes, out of place and in place; as many as were captured. */
			cr_expect_eq(times_in(text, "\"iterations\": 120}"), 4, "%s", text);
			cr_expect_eq(times_in(text, "\"nwrong\": 0"), 4, "%s", text);
		}
}

Test(bench_graph, sends_and_receives_are_captured_too, .timeout = 60)
{
	const char *text;

	need_tests_gpus("1");
	text = run_graph("", "sendrecv -t 2 -b 4K -e 4K -n 3 -G 4", 0);

	cr_expect_eq(times_in(text, "\"iterations\": 12}"), 1, "%s", text);
	cr_expect_eq(times_in(text, "\"nwrong\": 0"), 1, "%s", text);
}

/* One line for all ranks; no row. */
static void expect_not_captured(const char *environment, const char *reason)
{
	const char *text = run_graph(environment, "all_reduce --ranks 3 -b 1K -e 1K -G 2", 1);

	cr_expect_eq(times_in(text, "rondo-bench: "), 1, "%s", text);
	cr_expect(strstr(text, "all_reduce cannot be captured in a graph: "), "%s", text);
	cr_expect(strstr(text, reason), "%s", text);
	cr_expect_null(strstr(text, "      1024"), "%s", text);
}

Test(bench_graph, calls_that_cannot_be_captured_are_refused_in_one_line, .timeout = 60)
{
	need_tests_gpus("1");
	expect_not_captured("RONDO_KERNEL=staged", "calls go through host memory");
	expect_not_captured("RONDO_KERNEL=stepped", "take turns on a device");
}

Test(bench_graph, without_a_device_one_line_gives_the_reason, .timeout = 60)
{
	const char *text = run_graph("RONDO_DEVICE=none", "all_reduce --ranks 2 -G 2", 1);

	cr_expect_eq(times_in(text, "\n"), 1, "%s", text);
	cr_expect(strstr(text, "rondo-bench: --device: "), "%s", text);
}

Test(bench_graph, what_has_no_graph_is_refused, .timeout = 30)
{
	expect_bench_refused("all_reduce -G 2", "device's stream: give --device -z 0");
	expect_bench_refused("all_reduce -G 2 --device", "device's stream: give --device -z 0");
	expect_bench_refused("all_reduce -G 2 -z 0", "device's stream: give --device -z 0");
	expect_bench_refused("init --ranks 2 -G 2 --device -z 0", "captures a collective's calls");
	expect_bench_refused("all_reduce -G 2 --device -z 0 -I", "leave out -I or -G");
	expect_bench_refused("all_reduce -G -1", "--cudagraph wants a number from 0 to 1000000");
}

static int runs;

static int run_counted(const struct bench_call *call)
{
	runs++;
	return rondo_all_reduce(call->comm, call->send, call->recv, call->count, call->type,
		call->op, call->stream);
}

/* Calls are made by the warm-up, and for the graph that is timed and the one that is checked. */
Test(bench_graph, launches_make_no_call, .timeout = 60)
{
	enum { SIZE = 256, WARMUP = 3, CALLS = 7 };
	struct bench_collective counted = *bench_collective_find("all_reduce");
	struct bench_options options = { .collective = &counted,
		.iterations = CALLS,
		.warmup = WARMUP,
		.checks = 4,
		.launches = 9,
		.device = true };
	struct bench_row row = { .collective = &counted,
		.size = SIZE,
		.count = SIZE / 4,
		.type = RONDO_F32,
		.root = -1 };
	struct rondo_config config = RONDO_CONFIG_INIT;
	void *send = bench_memory_create(SIZE), *recv = bench_memory_create(SIZE);
	struct bench_mirror mirror;
	rondo_stream *stream;
	rondo_comm *comm;

	need_tests_gpus("1");
	counted.run = run_counted;
	config.rank = config.gpu = 0;
	config.size = 1;
	config.address = "127.0.0.1";
	cr_assert_eq(rondo_comm_create(&comm, &config), 0, "%s", rondo_last_error());
	cr_assert_eq(bench_mirror_create(&mirror, send, recv, SIZE, 0), 0);
	cr_assert_eq(rondo_stream_create_on(&stream, 0), 0);
	cr_assert_eq(bench_measure(&options, comm, stream, send, recv, &mirror, NULL, &row), 0,
		"%s", rondo_last_error());
	cr_expect_eq(runs, 2 * (WARMUP + CALLS + 1), "%d calls", runs);
	cr_expect(row.out_of_place.checked && row.out_of_place.wrong == 0);
	cr_expect_eq(row.in_place.iterations, 9 * CALLS);
	rondo_stream_destroy(stream);
	bench_mirror_destroy(&mirror);
	rondo_comm_destroy(comm);
	bench_memory_destroy(send);
	bench_memory_destroy(recv);
}
