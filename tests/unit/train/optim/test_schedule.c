/* Learning rates against those of torch.optim.lr_scheduler. */
#include <criterion/criterion.h>

#include "train/optim/schedule.h"
#include "train/reference.h"
#include "train/rounding.h"

#define STEPS 20

static void expect_rates(const char *entry, struct schedule schedule)
{
	struct reference *reference = reference_read("layers");
	schedule.rate = 0.1;
	schedule.steps = STEPS;
	for (int step = 0; step < STEPS; step++) {
		double expected = reference_value(reference, entry, step);
		/* PyTorch has each rate from the one before, by some four operations. */
		cr_assert_float_eq(schedule_rate(&schedule, step), expected,
			RECORDED(expected) + ROUNDING_OF_DOUBLES(4 * STEPS, schedule.rate),
			"%s, step %d: %.9g", entry, step, schedule_rate(&schedule, step));
	}
	reference_destroy(reference);
}

Test(schedule, a_step_multiplies_after_each_period)
{
	expect_rates("rates/step",
		(struct schedule){ .kind = SCHEDULE_STEP, .gamma = 0.1, .period = 7 });
}

Test(schedule, a_cosine_falls_to_zero)
{
	expect_rates("rates/cosine", (struct schedule){ .kind = SCHEDULE_COSINE });
}

Test(schedule, a_cosine_falls_to_the_lowest_rate)
{
	expect_rates("rates/cosine_to_0.01",
		(struct schedule){ .kind = SCHEDULE_COSINE, .lowest = 0.01 });
}

Test(schedule, a_warm_up_reaches_the_rate_in_its_last_step)
{
	expect_rates("rates/warm_up", (struct schedule){ .kind = SCHEDULE_COSINE, .warm_up = 5 });
}

Test(schedule, a_constant_rate_stays_also_behind_the_end)
{
	const struct schedule schedule = { .rate = 0.25, .warm_up = 2, .steps = 4 };
	const double rates[] = { 0.125, 0.25, 0.25, 0.25, 0.25 };
	for (int step = 0; step < 5; step++)
		cr_assert_eq(schedule_rate(&schedule, step), rates[step]);
}

Test(schedule, a_cosine_stays_at_the_lowest_rate_behind_the_end)
{
	const struct schedule schedule = {
		.kind = SCHEDULE_COSINE, .rate = 1, .lowest = 0.5, .steps = 2
	};
	cr_assert_eq(schedule_rate(&schedule, 2), 0.5);
	cr_assert_eq(schedule_rate(&schedule, 99), 0.5);
}
