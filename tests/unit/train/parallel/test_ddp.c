#include <criterion/criterion.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "train/parallel/ddp.h"
#include "train/base/fail.h"

#define TENSORS 6
#define ELEMENTS (1008 + 16 + 512 + 32 + 112 + 16) /* each tensor up to 64 bytes */

static struct tensor list[TENSORS];
static struct tensors tensors;
static struct device *cpu;
static const struct train_world alone = { .size = 1 };

static void open_cpu(void)
{
	static const int counts[TENSORS] = { 1000, 10, 500, 20, 100, 5 };
	cr_assert_eq(device_create(&cpu, DEVICE_CPU, 0), 0, "%s", failure());
	tensors = (struct tensors){ .list = list, .count = TENSORS };
	for (int t = 0; t < TENSORS; t++) {
		list[t] = (struct tensor){ .count = counts[t] };
		snprintf(list[t].name, sizeof(list[t].name), "tensor%d", t);
		tensors.elements += tensor_span(&list[t]);
	}
	cr_assert_eq(tensors.elements, ELEMENTS);
}

static void close_cpu(void)
{
	device_destroy(cpu);
}

TestSuite(ddp, .init = open_cpu, .fini = close_cpu);

static struct ddp *make_ddp(struct ddp_config config)
{
	struct ddp *ddp;
	cr_assert_eq(ddp_create(&ddp, &alone, cpu, &tensors, &config), 0, "%s", failure());
	return ddp;
}

/* Writes `number` to all elements of a gradient, as backward does. */
static int produce(struct ddp *ddp, int tensor, float number)
{
	for (size_t i = 0; i < list[tensor].count; i++)
		list[tensor].grad[i] = number;
	return ddp_ready(ddp, tensor);
}

/* Writes number + t to tensor t's. */
static int backward(struct ddp *ddp, float number)
{
	int err = 0;
	for (int t = TENSORS - 1; !err && t >= 0; t--)
		err = produce(ddp, t, number + t);
	return err;
}

static void expect_gradients(const struct ddp *ddp, float number)
{
	const float *next = ddp->gradients;
	for (int t = 0; t < TENSORS; t++) {
		cr_assert_eq(list[t].grad, next);
		for (size_t i = 0; i < tensor_span(&list[t]); i++)
			cr_assert_eq(next[i], i < list[t].count ? number + t : 0,
				"tensor %d, element %zu: %g", t, i, next[i]);
		next += tensor_span(&list[t]);
	}
}

Test(ddp, gradients_lie_as_parameters_do_and_buckets_cover_them_last_tensor_first)
{
	for (size_t size = 4; size <= 1 << 20; size *= 2) {
		struct ddp *ddp = make_ddp((struct ddp_config){ .bucket_size = size });
		size_t end = ELEMENTS;
		int last = TENSORS - 1;
		for (size_t i = 0; i < ELEMENTS; i++)
			cr_assert_eq(ddp->gradients[i], 0);
		for (int b = 0; b < ddp->bucket_count; b++) {
			const struct bucket *bucket = &ddp->buckets[b];
			cr_assert_eq(bucket->number, b);
			cr_assert_eq(bucket->offset + bucket->count, end);
			cr_assert_eq((uintptr_t)(ddp->gradients + bucket->offset) % 64, 0);
			cr_assert_eq(bucket->last, last);
			cr_assert_eq(list[bucket->first].grad, ddp->gradients + bucket->offset);
			cr_assert(bucket->first == last || bucket->count * sizeof(float) <= size);
			end = bucket->offset;
			last = bucket->first - 1;
		}
		cr_assert_eq(end, 0);
		cr_assert_eq(last, -1);
		ddp_destroy(ddp);
	}
}

Test(ddp, the_first_bucket_is_small)
{
	/* 160 bytes for the first, 4000 for the others. */
	struct ddp *ddp = make_ddp((struct ddp_config){ .bucket_size = 4000 });
	cr_assert_eq(ddp->bucket_count, 3);
	cr_assert_eq(ddp->buckets[0].count, 16);
	cr_assert_eq(ddp->buckets[1].count, 112 + 32 + 512 + 16);
	cr_assert_eq(ddp->buckets[2].count, 1008);
	ddp_destroy(ddp);
}

Test(ddp, buckets_start_in_order_when_they_are_full)
{
	/* { 5 } { 4 3 } { 2 1 } { 0 } */
	struct ddp *ddp = make_ddp((struct ddp_config){ .bucket_size = 2400 });
	cr_assert_eq(ddp->bucket_count, 4);
	cr_assert_eq(ddp_begin(ddp, 0, 1), 0);
	static const int order[TENSORS] = { 2, 1, 5, 4, 3, 0 };
	static const int launched[TENSORS] = { 0, 0, 1, 1, 3, 4 };
	for (int i = 0; i < TENSORS; i++) {
		cr_assert_eq(produce(ddp, order[i], 1), 0);
		cr_assert_eq(ddp->launched, launched[i], "after %d: %d", i, ddp->launched);
	}
	cr_assert_eq(ddp_wait(ddp), 0);
	ddp_destroy(ddp);
}

Test(ddp, without_overlap_no_bucket_starts_before_the_end_of_backward)
{
	struct ddp *ddp = make_ddp((struct ddp_config){ .bucket_size = 2400, .no_overlap = true });
	cr_assert_eq(ddp_begin(ddp, 0, 1), 0);
	cr_assert_eq(backward(ddp, 1), 0);
	cr_assert_eq(ddp->launched, 0);
	cr_assert_eq(ddp_wait(ddp), 0);
	cr_assert_eq(ddp->launched, ddp->bucket_count);
	ddp_destroy(ddp);
}

Test(ddp, micro_batches_add_up)
{
	for (int deterministic = 0; deterministic < 2; deterministic++) {
		struct ddp *ddp = make_ddp((struct ddp_config){
			.bucket_size = 2400, .micro_batches = 8, .deterministic = deterministic });
		for (int count = 8; count >= 1; count /= 2) {
			for (int m = 0; m < count; m++) {
				cr_assert_eq(ddp_begin(ddp, m, count), 0);
				for (int t = TENSORS - 1; t >= 0; t--)
					cr_assert_eq(produce(ddp, t, m ? m : t), 0);
				cr_assert_eq(ddp->launched, m < count - 1 ? 0 : ddp->bucket_count);
			}
			cr_assert_eq(ddp_wait(ddp), 0);
			expect_gradients(ddp, count * (count - 1) / 2);
		}
		ddp_destroy(ddp);
	}
}

Test(ddp, a_deterministic_sum_of_micro_batches_is_a_binary_tree)
{
	struct ddp *ddp = make_ddp((struct ddp_config){
		.bucket_size = 2400, .micro_batches = 4, .deterministic = true });
	/* (1e8 - 1e8) + (1 + 2), and (1e8 + 1) + (1 - 1e8): floats of 1e8 lose the 1. */
	static const float rows[2][4] = { { 1e8f, -1e8f, 1, 2 }, { 1e8f, 1, 1, -1e8f } };
	static const float sums[2] = { 3, 0 };
	for (int row = 0; row < 2; row++) {
		for (int m = 0; m < 4; m++) {
			cr_assert_eq(ddp_begin(ddp, m, 4), 0);
			for (int t = 0; t < TENSORS; t++)
				cr_assert_eq(produce(ddp, t, rows[row][m]), 0);
		}
		cr_assert_eq(ddp_wait(ddp), 0);
		cr_assert_eq(list[0].grad[0], sums[row], "%g", list[0].grad[0]);
	}
	ddp_destroy(ddp);
}

Test(ddp, a_deterministic_sum_of_three_is_refused)
{
	struct ddp *ddp;
	const struct ddp_config config = { .micro_batches = 3, .deterministic = true };
	cr_assert_neq(ddp_create(&ddp, &alone, cpu, &tensors, &config), 0);
	cr_assert_null(ddp);
	cr_assert_str_eq(failure(), "a deterministic sum needs powers of two: it has 1 ranks with "
				    "3 micro-batches");
}

Test(ddp, a_gradient_left_out_is_an_error_that_names_it)
{
	struct ddp *ddp = make_ddp((struct ddp_config){ .bucket_size = 2400 });
	cr_assert_eq(ddp_begin(ddp, 0, 1), 0);
	for (int t = 0; t < TENSORS; t++)
		if (t != 3)
			cr_assert_eq(ddp_ready(ddp, t), 0);
	cr_assert_neq(ddp_wait(ddp), 0);
	cr_assert(strstr(failure(), "tensor3: backward left its gradient out"), "%s", failure());
	ddp_destroy(ddp);
}

Test(ddp, a_gradient_produced_twice_is_an_error_that_names_it)
{
	struct ddp *ddp = make_ddp((struct ddp_config){ .bucket_size = 2400 });
	cr_assert_eq(ddp_begin(ddp, 0, 1), 0);
	cr_assert_eq(ddp_ready(ddp, 4), 0);
	cr_assert_neq(ddp_ready(ddp, 4), 0);
	cr_assert_str_eq(failure(), "tensor4: backward produced its gradient twice");
	ddp_destroy(ddp);
}

Test(ddp, an_unused_tensor_that_is_found_has_a_zero_gradient)
{
	struct ddp *ddp = make_ddp((struct ddp_config){
		.bucket_size = 2400, .micro_batches = 2, .find_unused = true });
	/* Values of the step before must not stay. */
	cr_assert_eq(ddp_begin(ddp, 0, 1), 0);
	cr_assert_eq(backward(ddp, 7), 0);
	cr_assert_eq(ddp_wait(ddp), 0);
	cr_assert_eq(ddp_begin(ddp, 0, 1), 0);
	for (int t = 0; t < TENSORS; t++)
		if (t != 3)
			cr_assert_eq(produce(ddp, t, 1), 0);
	cr_assert_eq(ddp->launched, 1);
	cr_assert_eq(ddp_wait(ddp), 0);
	cr_assert_eq(ddp->launched, ddp->bucket_count);
	for (int t = 0; t < TENSORS; t++)
		cr_assert_eq(list[t].grad[list[t].count - 1], t != 3);
	/* In one of two micro-batches, or in both. */
	for (int skipped = 0; skipped < 3; skipped++) {
		for (int m = 0; m < 2; m++) {
			cr_assert_eq(ddp_begin(ddp, m, 2), 0);
			for (int t = 0; t < TENSORS; t++)
				if (t != 3 || (skipped < 2 && m != skipped))
					cr_assert_eq(produce(ddp, t, 1), 0);
		}
		cr_assert_eq(ddp_wait(ddp), 0);
		cr_assert_eq(list[3].grad[0], skipped < 2);
		cr_assert_eq(list[2].grad[0], 2);
	}
	ddp_destroy(ddp);
}

Test(ddp, the_bucket_of_a_declared_tensor_does_not_wait)
{
	struct ddp *ddp = make_ddp((struct ddp_config){ .bucket_size = 2400 });
	cr_assert_eq(ddp_begin(ddp, 0, 1), 0);
	cr_assert_eq(ddp_unused(ddp, 5), 0);
	cr_assert_eq(ddp->launched, 1);
	for (int t = 0; t < TENSORS - 1; t++)
		cr_assert_eq(produce(ddp, t, 1), 0);
	cr_assert_eq(ddp_wait(ddp), 0);
	cr_assert_eq(list[5].grad[0], 0);
	ddp_destroy(ddp);
}
