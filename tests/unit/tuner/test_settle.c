/* Costs measured on a machine that is disturbed at some moments: a clock that jumps. */
#include <criterion/criterion.h>

#include "draw.h"
#include "ring/ring.h"
#include "tuner/predict.h"
#include "tuner/schedule.h"
#include "tuner/settle.h"

static struct rd_costs quiet;

static void init(void)
{
	rd_costs_default(&quiet);
	quiet.links[RD_NEAR].way_ns[0] = 700;
	quiet.copy_ps = 40;
}

/* One measurement: others take the core for up to a second at some of its costs. */
static struct rd_costs measure(struct draw *draw_, int one_in)
{
	struct rd_costs costs = quiet;
	uint32_t *disturbed[] = { &costs.links[RD_NEAR].way_ns[0], &costs.links[RD_NEAR].way_ns[5],
		&costs.links[RD_NEAR].busy_ns[3], &costs.copy_ps, &costs.memory_reduce_ps[RD_WHOLE],
		&costs.switch_ns };

	for (size_t i = 0; i < sizeof(disturbed) / sizeof(disturbed[0]); i++)
		if (one_in > 0 && draw_one_in(draw_, (uint64_t)one_in))
			*disturbed[i] += 1000000u << draw(draw_, 10);
	/* The ranks then compare with a disturbed sample. */
	costs.links[RD_NEAR].past_caches =
		costs.links[RD_NEAR].busy_ns[3] != quiet.links[RD_NEAR].busy_ns[3];
	rd_costs_bound(&costs);
	return costs;
}

/* Measures as a comm does; disturbed in the rounds of these bits. Returns their number. */
static int settle(struct draw *draw_, unsigned disturbed, struct rd_costs *costs, bool *settled)
{
	struct rd_settling settling = { 0 };
	bool again = true;

	rd_costs_default(&settling.usual);
	while (again) {
		struct rd_costs measured =
			measure(draw_, disturbed >> settling.count & 1 ? 1 + settling.count : 0);

		again = rd_settling_add(&settling, &measured, true);
	}
	*settled = rd_settling_end(&settling, costs);
	return settling.count;
}

static int64_t predict(const struct rd_costs *costs, uint64_t size)
{
	struct rd_problem problem = { .collective = RD_ALL_REDUCE, .size = 4 };
	struct rd_cut cut = { size, RD_WHOLE, 128 << 10, 1 };
	struct rd_schedule *schedule;
	int64_t predicted;

	cr_assert_eq(rd_schedule_create(&schedule, &rd_ring, &problem), 0);
	predicted = rd_predict(schedule, costs, &cut);
	rd_schedule_destroy(schedule);
	return predicted;
}

Test(settle, a_quiet_machine_is_measured_once, .init = init)
{
	struct draw draw_ = draw_from(1, 0);
	struct rd_costs costs;
	bool settled;

	cr_expect_eq(settle(&draw_, 0, &costs, &settled), 1);
	cr_expect(settled);
	cr_expect_arr_eq(&costs, &quiet, sizeof(costs));
}

Test(settle, one_disturbed_measurement_leaves_no_trace, .init = init)
{
	for (unsigned seed = 0; seed < 100; seed++) {
		struct draw draw_ = draw_from(seed, 1);
		struct rd_costs costs;
		bool settled;

		cr_expect_eq(settle(&draw_, 1, &costs, &settled), RD_SETTLE_ROUNDS);
		cr_expect(settled);
		cr_expect_arr_eq(&costs, &quiet, sizeof(costs));
	}
}

/* Each cost is then that of the quiet machine, or a usual one, of which none is twice the other. */
Test(settle, a_disturbed_run_moves_no_prediction_far_and_is_not_kept, .init = init)
{
	int kept = 0;

	for (unsigned seed = 0; seed < 300; seed++) {
		struct draw draw_ = draw_from(seed, 2);
		struct rd_costs costs, usual;
		bool settled;

		rd_costs_default(&usual);
		settle(&draw_, 1 + seed % 7, &costs, &settled);
		kept += settled && memcmp(&costs, &quiet, sizeof(costs)) != 0;
		for (uint64_t size = 8; size <= 16 << 20; size *= 128)
			cr_expect_leq(predict(&costs, size), 2 * predict(&usual, size),
				"seed %u, %llu bytes: %lld, not %lld", seed,
				(unsigned long long)size, (long long)predict(&costs, size),
				(long long)predict(&usual, size));
	}
	cr_expect_eq(kept, 0, "%d disturbed runs were kept", kept);
}

/* A network of 100 ms, measured three times, each time delayed by so much. */
static bool measure_network(const uint32_t delays[RD_SETTLE_ROUNDS], struct rd_costs *costs)
{
	struct rd_settling settling = { 0 };

	rd_costs_default(&settling.usual);
	for (int i = 0; i < RD_SETTLE_ROUNDS; i++) {
		struct rd_costs slow = settling.usual;

		for (int k = 0; k < RD_COST_POINT_COUNT; k++)
			slow.links[RD_FAR].way_ns[k] += 100000000 + delays[i];
		cr_expect_eq(rd_settling_add(&settling, &slow, true), i + 1 < RD_SETTLE_ROUNDS);
	}
	return rd_settling_end(&settling, costs);
}

#define DELAYS(...) ((const uint32_t[RD_SETTLE_ROUNDS]){ __VA_ARGS__ })

Test(settle, a_slow_network_confirms_itself, .init = init)
{
	struct rd_costs costs, usual;
	uint32_t *far = &costs.links[RD_FAR].way_ns[0];

	rd_costs_default(&usual);
	cr_expect(measure_network(DELAYS(0, 1000000, 2000000), &costs));
	cr_expect_eq(*far, usual.links[RD_FAR].way_ns[0] + 101000000);
	/* The one that was disturbed does not count. */
	for (int disturbed = 0; disturbed < RD_SETTLE_ROUNDS; disturbed++) {
		uint32_t delays[RD_SETTLE_ROUNDS] = { 0 };

		delays[disturbed] = 2000000000;
		cr_expect(measure_network(delays, &costs));
		cr_expect_eq(*far, usual.links[RD_FAR].way_ns[0] + 100000000);
	}
	cr_expect_not(measure_network(DELAYS(0, 200000000, 400000000), &costs));
	cr_expect_eq(*far, usual.links[RD_FAR].way_ns[0]);
	cr_expect_eq(costs.links[RD_NEAR].way_ns[0], usual.links[RD_NEAR].way_ns[0]);
}

Test(settle, no_measurement_follows_where_time_is_short, .init = init)
{
	struct rd_settling settling = { 0 };
	struct rd_costs slow, costs, usual;

	rd_costs_default(&usual);
	settling.usual = slow = usual;
	slow.links[RD_NEAR].way_ns[4] = slow.links[RD_FAR].way_ns[4] = 500000000;
	cr_expect_not(rd_settling_add(&settling, &slow, false));
	cr_expect_not(rd_settling_end(&settling, &costs));
	cr_expect_eq(costs.links[RD_NEAR].way_ns[4], usual.links[RD_NEAR].way_ns[4]);
	cr_expect_eq(costs.links[RD_FAR].way_ns[4], 500000000);
}

/* Links that were measured may be right, but all of a host are of a busy one. */
Test(settle, a_user_that_gives_up_has_the_usual_costs_of_a_host, .init = init)
{
	struct rd_settling settling = { .gave_up = true };
	struct rd_costs measured = quiet, costs, usual;

	rd_costs_default(&usual);
	settling.usual = usual;
	measured.links[RD_NEAR].way_ns[0] /= 2;
	measured.links[RD_FAR].way_ns[4] = 500000000;
	cr_expect_not(rd_settling_add(&settling, &measured, true));
	cr_expect_not(rd_settling_end(&settling, &costs));
	cr_expect_eq(costs.links[RD_NEAR].way_ns[0], usual.links[RD_NEAR].way_ns[0]);
	cr_expect_eq(costs.copy_ps, usual.copy_ps);
	cr_expect_eq(costs.links[RD_FAR].way_ns[4], 500000000);
}
