/* Dynamic loss scaling, as torch.amp.GradScaler defines it. */
#include <criterion/criterion.h>
#include <math.h>
#include <string.h>

#include "train/base/fail.h"
#include "train/optim/loss_scale.h"

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
