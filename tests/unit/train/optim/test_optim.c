/* ctest label: instructions */
/* Dynamic loss scaling, as torch.amp.GradScaler defines it. */
#include <criterion/criterion.h>
#include <math.h>
#include <string.h>

#include "train/base/fail.h"
#include "train/optim/loss_scale.h"
#include "train/optim/schedule.h"
#include "train/reference.h"
#include "train/rounding.h"

Test(loss_scale, halves_after_a_step_that_overflows)
{
	struct loss_scale scale;
	loss_scale_init(&scale, true);
	cr_assert_eq(scale.value, 65536);
	cr_assert_eq(loss_scale_update(&scale, false), 0);
	cr_assert_eq(scale.value, 32768);
	cr_assert_eq(loss_scale_update(&scale, false), 0);
	cr_assert_eq(scale.value, 16384);
	cr_assert_eq(scale.skipped, 2);
}

static void take_good_steps(struct loss_scale *scale, int count)
{
	for (int i = 0; i < count; i++)
		cr_assert_eq(loss_scale_update(scale, true), 0);
}

Test(loss_scale, doubles_after_2000_good_steps_in_a_row)
{
	struct loss_scale scale;
	loss_scale_init(&scale, true);
	take_good_steps(&scale, 1999);
	cr_assert_eq(scale.value, 65536);
	take_good_steps(&scale, 1);
	cr_assert_eq(scale.value, 131072);
	take_good_steps(&scale, 1999);
	cr_assert_eq(loss_scale_update(&scale, false), 0);
	take_good_steps(&scale, 1999);
	cr_assert_eq(scale.value, 65536);
	take_good_steps(&scale, 1);
	cr_assert_eq(scale.value, 131072);
}

Test(loss_scale, stays_finite)
{
	struct loss_scale scale;
	loss_scale_init(&scale, true);
	take_good_steps(&scale, 2000 * 120);
	cr_assert_eq(scale.value, ldexpf(1, 127));
}

Test(loss_scale, ends_with_a_line_where_no_scale_helps)
{
	struct loss_scale scale;
	int err = 0, steps = 0;
	loss_scale_init(&scale, true);
	for (; !err && steps < 1000; steps++)
		err = loss_scale_update(&scale, false);
	/* 2^16 to 2^-149, the least number of f32. */
	cr_assert_eq(steps, 166);
	cr_assert(strstr(failure(), "lower --lr"), "%s", failure());
}

Test(loss_scale, is_1_where_it_is_off)
{
	struct loss_scale scale;
	struct optimizer optimizer = { .loss_scale = 5 };
	loss_scale_init(&scale, false);
	cr_assert_eq(scale.value, 1);
	loss_scale_begin(&scale, &optimizer);
	cr_assert_eq(optimizer.loss_scale, 0);
	cr_assert_eq(loss_scale_end(&scale, &optimizer), 0);
}

/* ---- With an optimizer, on the CPU ---- */

#define COUNT 3

/* One step of SGD with momentum, from gradients that are `factor` times 1, 2, 3. */
static int step(struct loss_scale *scale, struct optimizer *optimizer, float factor, float *values)
{
	float grad[COUNT] = { 1 * factor, 2 * factor, 3 * factor };
	loss_scale_begin(scale, optimizer);
	optimizer_begin(optimizer);
	cr_assert(optimizer_measures(optimizer));
	optimizer_measure(optimizer, COUNT, grad);
	optimizer_clip(optimizer);
	optimizer_update(optimizer, 0.5f, 0, COUNT, grad, values);
	return loss_scale_end(scale, optimizer);
}

Test(loss_scale, a_step_that_overflows_changes_nothing)
{
	struct device *cpu;
	struct optimizer *optimizer;
	struct loss_scale scale;
	float values[COUNT] = { 10, 20, 30 };
	const struct optimizer_config config = { .kind = OPTIMIZER_SGD, .momentum = 0.5f };
	cr_assert_eq(device_create(&cpu, DEVICE_CPU, 0), 0);
	cr_assert_eq(optimizer_create(&optimizer, cpu, &config, COUNT), 0);
	loss_scale_init(&scale, true);
	cr_assert_eq(step(&scale, optimizer, INFINITY, values), 0);
	cr_assert_eq(optimizer->step, 0);
	cr_assert_eq(step(&scale, optimizer, NAN, values), 0);
	cr_assert_eq(values[0], 10);
	cr_assert_eq(scale.skipped, 2);
	/* The gradients are unscaled by 16384 now: 1, 2, 3. */
	cr_assert_eq(step(&scale, optimizer, 16384, values), 0);
	cr_assert_eq(optimizer->step, 1);
	cr_assert_eq(values[0], 9.5f);
	cr_assert_eq(values[2], 28.5f);
	/* Momentum: 0.5 * 1 + 1. */
	cr_assert_eq(step(&scale, optimizer, 16384, values), 0);
	cr_assert_eq(values[0], 8.75f);
	optimizer_destroy(optimizer);
	device_destroy(cpu);
}

/* Learning rates against those of torch.optim.lr_scheduler. */

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
