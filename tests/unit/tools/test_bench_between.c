/* ctest label: threads */
/* The work between two timed calls, and the common start. */
#include <criterion/criterion.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "bench/between.h"
#include "bench/collective.h"
#include "bench_run.h"
#include "free_port.h"

#define ROUNDS 20
#define GAP_NS 200000

struct side {
	struct bench_meeting *meeting;
	const struct bench_between *between;
	int ranks;
	int64_t arrivals[ROUNDS], starts[ROUNDS];
	bool met;
	pthread_t thread;
};

static void *run_side(void *argument)
{
	const struct bench_touched none = { 0 };
	struct side *side = argument;
	struct bench_start start;

	side->met = bench_start_init(&start, side->between, side->meeting, side->ranks);
	for (int i = 0; i < ROUNDS && side->met; i++) {
		side->arrivals[i] = rd_clock_ns();
		side->starts[i] = bench_start_await(&start, &none);
		side->met = side->starts[i] >= 0;
	}
	bench_start_finish(&start);
	return NULL;
}

/* One side a rank; the caller frees them. */
static struct side *run_sides(const struct bench_between *between, int ranks)
{
	static struct bench_meeting meeting;
	struct side *sides = calloc((size_t)ranks, sizeof(*sides));

	cr_assert_not_null(sides);
	memset(&meeting, 0, sizeof(meeting));
	for (int i = 0; i < ranks; i++) {
		sides[i] = (struct side){ &meeting, between, .ranks = ranks };
		cr_assert_eq(pthread_create(&sides[i].thread, NULL, run_side, &sides[i]), 0);
	}
	for (int i = 0; i < ranks; i++)
		pthread_join(sides[i].thread, NULL);
	for (int i = 0; i < ranks; i++)
		cr_assert(sides[i].met, "rank %d", i);
	return sides;
}

static void expect_common_starts(const struct bench_between *between)
{
	struct side *sides = run_sides(between, 2);

	for (int i = 0; i < ROUNDS; i++)
		for (int side = 0; side < 2; side++)
			for (int k = 0; k < 2; k++)
				cr_assert_geq(sides[side].starts[i],
					sides[k].arrivals[i] + between->gap_ns, "round %d", i);
	free(sides);
}

Test(bench_between, no_rank_starts_before_the_gap_after_the_last_arrival, .timeout = 60)
{
	const struct bench_between gap = { .gap_ns = GAP_NS };
	const struct bench_between asleep = { .sleep = true, .gap_ns = GAP_NS, .walk = 100000 };

	expect_common_starts(&gap);
	expect_common_starts(&asleep);
}

Test(bench_between, a_call_of_ranks_that_share_processors_lasts_from_the_common_start,
	.timeout = 60)
{
	const struct bench_between touch = { .touch = true };
	int ranks = (int)sysconf(_SC_NPROCESSORS_ONLN) + 1;
	struct side *sides = run_sides(&touch, ranks);

	for (int i = 0; i < ROUNDS; i++) {
		int64_t latest = 0;
		for (int k = 0; k < ranks; k++)
			latest = sides[k].arrivals[i] > latest ? sides[k].arrivals[i] : latest;
		for (int k = 0; k < ranks; k++) {
			cr_assert_eq(sides[k].starts[i], sides[0].starts[i], "round %d", i);
			cr_assert_gt(sides[k].starts[i], latest, "round %d", i);
		}
	}
	free(sides);
}

Test(bench_between, a_rank_that_touches_its_input_keeps_the_values, .timeout = 30)
{
	const struct bench_between touch = { .touch = true };
	struct bench_meeting meeting = { 0 };
	struct bench_start start;
	char input[29] = "0123456789abcdefghijklmnopqr", before[29];
	struct bench_touched touched = { input, input, sizeof(input), sizeof(input) };

	memcpy(before, input, sizeof(input));
	cr_assert(bench_start_init(&start, &touch, &meeting, 1));
	cr_assert_geq(bench_start_await(&start, &touched), 0);
	bench_start_read(&start, &touched);
	bench_start_finish(&start);
	cr_assert_arr_eq(input, before, sizeof(input));
}

static struct bench_touched touched_by(const char *collective, int rank)
{
	struct bench_call call = {
		.collective = bench_collective_find(collective),
		.count = 10,
		.type = RONDO_F32,
		.rank = rank,
		.size = 3,
	};
	return bench_collective_touched(&call);
}

Test(bench_between, ranks_touch_what_the_call_reads_and_writes)
{
	cr_assert_eq(touched_by("all_gather", 1).input_size, 40);
	cr_assert_eq(touched_by("all_gather", 1).output_size, 120);
	cr_assert_eq(touched_by("broadcast", 0).input_size, 40);
	cr_assert_eq(touched_by("broadcast", 1).input_size, 0);
	cr_assert_eq(touched_by("broadcast", 1).output_size, 40);
	cr_assert_eq(touched_by("scatter", 1).input_size, 0);
	cr_assert_eq(touched_by("reduce", 1).input_size, 40);
	cr_assert_eq(touched_by("reduce", 0).output_size, 40);
	cr_assert_eq(touched_by("reduce", 1).output_size, 0);
	cr_assert_eq(touched_by("gather", 1).output_size, 0);
}

Test(bench_between, every_collective_is_right_with_all_of_it, .timeout = 120)
{
	const struct bench_collective *collective;

	for (int i = 0; (collective = bench_collective_at(i)); i++) {
		struct bench_outcome *outcome = run_bench(
			"%s --ranks 2 -t %d -b 8 -e 8K -f 1024 -n 2 --touch --gap 1us --walk 64K %s",
			collective->name, 1 + i % 2, i % 3 ? "" : "--sleep");
		cr_assert_eq(outcome->status, 0, "%s:\n%s", collective->name, outcome->text);
		cr_assert(strstr(outcome->text, "# each call by itself: buffers touched, gap 1 us"),
			"%s", outcome->text);
		cr_assert(strstr(outcome->text, "# Out of bounds values : 0 OK"));
		cr_assert(strstr(outcome->text, "p50      p90      p99"), "%s", outcome->text);
	}
}

Test(bench_between, ranks_without_a_common_proc_are_one_line, .timeout = 60)
{
	struct bench_outcome *outcome = run_script(
		"unshare --pid --fork --kill-child --mount-proc '%s' barrier -n 1 --touch",
		RONDO_TOOL);

	if (outcome->status)
		cr_skip_test("a namespace of processes needs root");
	outcome = run_script("exec 2>&1; export MASTER_ADDR=127.0.0.1 MASTER_PORT=%d WORLD_SIZE=2; "
			     "RANK=1 unshare --pid --fork --kill-child --mount-proc '%s' barrier "
			     "--touch & RANK=0 '%s' barrier --touch; wait $!",
		free_port(), RONDO_TOOL, RONDO_TOOL);
	cr_assert_eq(outcome->status, 1, "%s", outcome->text);
	cr_assert_str_eq(outcome->text,
		"rondo-bench: --touch, --gap, --walk and --sleep start the ranks by one clock: run "
		"all of them on one host, with one /proc\n");
}
