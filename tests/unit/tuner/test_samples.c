/* Measured costs, some by a rank that was preempted while it measured. */
#include <criterion/criterion.h>

#include "tuner/predict.h"
#include "ring/ring.h"
#include "tuner/samples.h"
#include "tuner/schedule.h"

#define SPOILED 4000000 /* ns: a turn of the scheduler */

/* Costs of shared memory on a quick host, by size. */
static const uint32_t quick[RD_COST_POINT_COUNT] = { 400, 600, 1100, 3600, 13000, 26000 };

/* The sizes from 0 to the last, but for one that the test adds. */
static struct rd_samples all_but(int point, int last)
{
	struct rd_samples samples = { 0 };

	for (int i = 0; i <= last; i++)
		if (i != point)
			rd_samples_add(&samples, i, quick[i]);
	return samples;
}

static struct rd_costs settle(const struct rd_samples *samples)
{
	struct rd_costs costs;
	struct rd_link_cost *link = &costs.links[RD_NEAR];

	rd_costs_default(&costs);

	const struct rd_link_cost standard = *link;

	rd_samples_settle(samples, standard.way_ns, link->way_ns);
	rd_samples_settle(samples, standard.busy_ns, link->busy_ns);
	return costs;
}

/* The predicted time of an all-reduce of 1 MiB by two ranks. */
static int64_t predicted_of(const struct rd_costs *costs)
{
	struct rd_problem problem = { .collective = RD_ALL_REDUCE, .size = 2 };
	struct rd_cut cut = { 1 << 20, RD_WHOLE, 128 << 10, 1 };
	struct rd_schedule *schedule;

	cr_assert_eq(rd_schedule_create(&schedule, &rd_ring, &problem), 0);

	int64_t predicted = rd_predict(schedule, costs, &cut);

	rd_schedule_destroy(schedule);
	return predicted;
}

/* Expects at most twice, and at least half, of the undisturbed prediction. */
static void expect_sane(const struct rd_samples *samples, const char *disturbed)
{
	struct rd_samples undisturbed = all_but(-1, RD_COST_POINT_COUNT - 1);
	struct rd_costs wanted = settle(&undisturbed), costs = settle(samples);

	cr_expect(predicted_of(&costs) < 2 * predicted_of(&wanted) &&
			  predicted_of(&costs) > predicted_of(&wanted) / 2,
		"%s: %lld, undisturbed %lld", disturbed, (long long)predicted_of(&costs),
		(long long)predicted_of(&wanted));
}

Test(samples, one_that_is_out_of_line_is_doubted_until_it_is_measured_again)
{
	for (int point = 1; point < RD_COST_POINT_COUNT; point++) {
		struct rd_samples samples = all_but(point, point);

		rd_samples_add(&samples, point, SPOILED);
		cr_expect(rd_samples_doubt(&samples, point), "point %d", point);
		rd_samples_add(&samples, point, quick[point]);
		cr_expect_not(rd_samples_doubt(&samples, point), "point %d", point);
		cr_expect_eq(rd_samples_expect(&samples, point), quick[point]);
	}
}

Test(samples, a_size_that_stays_in_doubt_does_not_move_predictions)
{
	/* Each size with all others, and as the last that was measured. */
	for (int point = 1; point < RD_COST_POINT_COUNT; point++)
		for (int last = point; last < RD_COST_POINT_COUNT; last++) {
			struct rd_samples samples = all_but(point, last);

			rd_samples_add(&samples, point, SPOILED);
			rd_samples_add(&samples, point, 3 * SPOILED);
			rd_samples_add(&samples, point, 10 * SPOILED);
			cr_expect(rd_samples_doubt(&samples, point));
			cr_expect_leq(rd_samples_expect(&samples, point), 4 * quick[point]);
			expect_sane(&samples, "in doubt");
		}
}

Test(samples, a_wrong_sample_of_the_least_size_is_corrected)
{
	struct rd_samples samples = all_but(0, RD_COST_POINT_COUNT - 1);

	rd_samples_add(&samples, 0, SPOILED);
	expect_sane(&samples, "at no bytes");
}

/* A busy machine may leave no time for the first. */
Test(samples, sizes_before_the_first_have_the_standard)
{
	struct rd_costs standard;
	struct rd_samples samples = { 0 };

	rd_costs_default(&standard);
	for (int first = RD_COST_POINT_COUNT; first >= 0; first--) {
		const uint32_t *usual = standard.links[RD_NEAR].way_ns;
		struct rd_costs costs;

		if (first < RD_COST_POINT_COUNT)
			rd_samples_add(&samples, first, quick[first]);
		costs = settle(&samples);
		for (int i = 0; i < first; i++)
			cr_expect_eq(costs.links[RD_NEAR].way_ns[i],
				first < RD_COST_POINT_COUNT && quick[first] < usual[i]
					? quick[first]
					: usual[i],
				"size %d, first %d", i, first);
		for (int i = first; i < RD_COST_POINT_COUNT; i++)
			cr_expect_eq(costs.links[RD_NEAR].way_ns[i], quick[i], "size %d", i);
	}
}

Test(samples, a_slow_network_confirms_itself)
{
	struct rd_samples samples = { 0 };
	struct rd_costs costs;

	/* 100 Mbit/s. */
	rd_samples_add(&samples, 0, 60000);
	rd_samples_add(&samples, 1, 140000);
	rd_samples_add(&samples, 3, 1400000);
	cr_expect(rd_samples_doubt(&samples, 3));
	rd_samples_add(&samples, 3, 1500000);
	cr_expect_not(rd_samples_doubt(&samples, 3));
	costs = settle(&samples);
	cr_expect_eq(costs.links[RD_NEAR].way_ns[3], 1400000);
	cr_expect_geq(costs.links[RD_NEAR].way_ns[5], 8000000);
}
