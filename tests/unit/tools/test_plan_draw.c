/* rondo-plan draw of a simulation: its times, and where ranks died or wait. */
#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "plan/document.h"
#include "rondo.h"
#include "text.h"

static struct plan_problem made;

static struct plan_options options_of(const char *algorithm, int ranks)
{
	return (struct plan_options){ .action = PLAN_DRAW,
		.algorithm = algorithm,
		.collective = RD_ALL_REDUCE,
		.ranks = ranks,
		.hosts = 1,
		.size = 100000,
		.piece_size = 4096,
		.pieces = 3 };
}

static struct plan_timeline create(const struct plan_options *options)
{
	struct plan_timeline timeline;

	plan_problem_lay(&made, options);
	rd_costs_default(&made.costs);
	made.costs.cores = options->ranks;
	cr_assert_eq(plan_timeline_create(&timeline, &made, options), 0, "%s", rondo_last_error());
	return timeline;
}

static char *picture_of(const struct plan_timeline *timeline)
{
	char *text;
	size_t size;
	FILE *out = open_memstream(&text, &size);

	plan_picture_write(timeline, out);
	fclose(out);
	return text;
}

/* Messages that a step took. */
static int count_taken(const struct plan_timeline *timeline)
{
	int count = 0;

	for (int rank = 0; rank < made.problem.size; rank++)
		for (int piece = 0; piece < timeline->pieces; piece++)
			for (int step = 0; step < timeline->plans[rank]->step_count; step++) {
				size_t at = plan_timeline_at(timeline, piece, rank, step);

				count += plan_timeline_sender(timeline, rank, step) >= 0 &&
					 timeline->schedule->times[at].end_ns >= 0;
			}
	return count;
}

/* A factor of 1 slows nothing. */
Test(plan_draw, a_simulation_without_faults_has_the_times_of_a_replay)
{
	static const char *const algorithms[] = { "ring", "tree", "halving", "two_shot" };

	for (size_t i = 0; i < sizeof(algorithms) / sizeof(*algorithms); i++) {
		struct plan_options options = options_of(algorithms[i], 8);
		struct plan_timeline replayed = create(&options), simulated;

		options.slow = (struct plan_faults){ 1, { { 0, 1000 } } };
		simulated = create(&options);
		cr_expect_gt(simulated.simulation.rank_count, 0);
		cr_expect_eq(simulated.pieces, replayed.pieces);
		cr_expect_eq(simulated.end_ns, replayed.end_ns);
		cr_expect_eq(simulated.predicted_ns, replayed.predicted_ns);
		for (int at = 0; at < replayed.pieces * replayed.schedule->event_count; at++) {
			const struct rd_event_time *a = &replayed.schedule->times[at];
			const struct rd_event_time *b = &simulated.schedule->times[at];

			cr_assert_eq(a->end_ns, b->end_ns, "%s, step %d", algorithms[i], at);
			cr_assert_eq(a->end_ns - a->begin_ns, b->end_ns - b->begin_ns);
			cr_assert_eq(replayed.critical[at], simulated.critical[at]);
		}
		plan_timeline_destroy(&replayed);
		plan_timeline_destroy(&simulated);
	}
}

Test(plan_draw, a_slow_rank_and_a_network_change_the_picture)
{
	struct plan_options options = options_of("ring", 4);
	struct plan_timeline timeline = create(&options);
	int64_t usual_ns = timeline.predicted_ns;

	plan_timeline_destroy(&timeline);
	options.slow = (struct plan_faults){ 1, { { 2, 3000 } } };
	timeline = create(&options);
	cr_expect_gt(timeline.predicted_ns, usual_ns * 3 / 2);
	cr_expect_leq(timeline.end_ns, timeline.predicted_ns);
	plan_timeline_destroy(&timeline);
	options.slow.count = 0;
	options.hosts = 4;
	options.topology = "card:mbps=100";
	timeline = create(&options);
	cr_expect_gt(timeline.predicted_ns, 10 * usual_ns);
	plan_timeline_destroy(&timeline);
}

/* Its messages before that arrive. */
Test(plan_draw, a_dead_rank_is_marked_with_those_that_wait)
{
	struct plan_options options = options_of("ring", 4);
	struct plan_timeline timeline;
	char *text;

	options.kills = (struct plan_faults){ 1, { { 3, 3000000 } } };
	timeline = create(&options);
	text = picture_of(&timeline);
	cr_expect_eq(count_of(text, ">died<"), 1, "%s", text);
	cr_expect_eq(count_of(text, ">waits for rank "), 3);
	cr_expect_eq(count_of(text, "the call never ends<"), 1);
	cr_expect_eq(count_of(text, " critical\""), 1); /* the legend's */
	cr_expect_eq(count_of(text, "class=\"message\""), count_taken(&timeline));
	cr_expect_gt(count_of(text, "<title>rank 3, "), 0);
	cr_expect_lt(count_of(text, "<title>rank 3, "), count_of(text, "<title>rank 0, "));
	free(text);
	plan_timeline_destroy(&timeline);
}

Test(plan_draw, deaths_behind_the_last_step_are_marked)
{
	struct plan_options options = options_of("ring", 2);
	struct plan_timeline timeline;
	char *text;

	options.piece_size = options.size;
	options.slow = (struct plan_faults){ 1, { { 1, 1000000 } } };
	options.kills = (struct plan_faults){ 2, { { 0, 200000000 }, { 1, 500000000 } } };
	timeline = create(&options);
	text = picture_of(&timeline);
	cr_expect_eq(timeline.end_ns, 500000);
	cr_expect_eq(count_of(text, ">died<"), 2, "%s", text);
	cr_expect_eq(count_of(text, "1 piece in 500 us; the call never ends<"), 1, "%s", text);
	cr_expect_eq(count_of(text, "<title>rank 0, "), 1);
	cr_expect_eq(count_of(text, " critical\""), 1); /* the legend's */
	free(text);
	plan_timeline_destroy(&timeline);
}
