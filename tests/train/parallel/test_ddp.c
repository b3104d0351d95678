#include <criterion/criterion.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "train/parallel/ddp.h"
#include "train/base/fail.h"

#define TENSORS 6

static struct tensor tensors[TENSORS];
static struct device *cpu;
static const struct train_world alone = { .size = 1 };

static void open_cpu(void)
{
	cr_assert_eq(device_create(&cpu, DEVICE_CPU, 0), 0, "%s", failure());
}

static void close_cpu(void)
{
	device_destroy(cpu);
}

TestSuite(ddp, .init = open_cpu, .fini = close_cpu);

static struct ddp *make_ddp(size_t bucket_size, const int *order)
{
	static const size_t counts[TENSORS] = { 1000, 10, 500, 20, 100, 5 };
	struct ddp *ddp;
	for (int t = 0; t < TENSORS; t++)
		tensors[t] = (struct tensor){ .count = counts[t] };
	cr_assert_eq(ddp_create(&ddp, &alone, cpu, tensors, TENSORS,
			     &(struct ddp_config){ .bucket_size = bucket_size, .order = order }),
		0, "%s", failure());
	return ddp;
}

/* Buckets lie one behind the other, each at a multiple of 64 bytes, and so do the tensors in
   `order` within them; all is covered once. */
static void expect_layout(const struct ddp *ddp, const int *order)
{
	const float *next = ddp->gradients;
	size_t count = 0;
	for (int i = 0; i < TENSORS; i++) {
		const struct tensor *tensor = &tensors[order[i]];
		const struct bucket *bucket = &ddp->buckets[ddp->bucket_of[order[i]]];
		if (i && ddp->bucket_of[order[i]] != ddp->bucket_of[order[i - 1]])
			next = bucket->grad;
		cr_assert_eq(tensor->grad, next);
		cr_assert_geq(tensor->grad, bucket->grad);
		cr_assert_leq(tensor->grad + tensor->count, bucket->grad + bucket->count);
		next += tensor->count;
	}
	next = ddp->gradients;
	for (int b = 0; b < ddp->bucket_count; b++) {
		cr_assert_eq((uintptr_t)ddp->buckets[b].grad % 64, 0);
		cr_assert_geq(ddp->buckets[b].grad, next);
		cr_assert_lt(ddp->buckets[b].grad, next + 16);
		next = ddp->buckets[b].grad + ddp->buckets[b].count;
		count += ddp->buckets[b].count;
		cr_assert(ddp->buckets[b].tensors == 1 ||
			  ddp->buckets[b].count * sizeof(float) <= ddp->bucket_size);
	}
	cr_assert_eq(count, 1635);
}

static int backward(struct ddp *ddp, const int *order)
{
	int err = ddp_begin(ddp);
	for (int i = 0; !err && i < TENSORS; i++)
		err = ddp_ready(ddp, order[i]);
	return err ? err : ddp_wait(ddp);
}

Test(ddp, gradients_are_views_of_one_buffer_last_tensor_first)
{
	for (size_t bucket_size = 4; bucket_size <= 1 << 20; bucket_size *= 2) {
		struct ddp *ddp = make_ddp(bucket_size, NULL);
		expect_layout(ddp, (int[]){ 5, 4, 3, 2, 1, 0 });
		ddp_destroy(ddp);
	}
}

Test(ddp, the_first_bucket_is_small)
{
	/* 160 bytes for the first, 4000 for the others. */
	struct ddp *ddp = make_ddp(4000, NULL);
	cr_assert_eq(ddp->bucket_count, 3);
	cr_assert_eq(ddp->buckets[0].count, 5);
	cr_assert_eq(ddp->buckets[1].count, 100 + 20 + 500 + 10);
	cr_assert_eq(ddp->buckets[2].count, 1000);
	ddp_destroy(ddp);
}

Test(ddp, the_order_that_was_seen_is_laid_out_before_the_second_step)
{
	static const int order[TENSORS] = { 4, 5, 2, 0, 3, 1 };
	struct ddp *ddp = make_ddp(2400, NULL);
	cr_assert_eq(backward(ddp, order), 0);
	/* The optimizer still reads the first step's gradients. */
	expect_layout(ddp, (int[]){ 5, 4, 3, 2, 1, 0 });
	cr_assert_eq(ddp_begin(ddp), 0);
	expect_layout(ddp, order);
	/* The layout stays in later steps. */
	cr_assert_eq(backward(ddp, (int[]){ 0, 1, 2, 3, 4, 5 }), 0);
	cr_assert_eq(ddp_begin(ddp), 0);
	expect_layout(ddp, order);
	ddp_destroy(ddp);
}

Test(ddp, an_order_from_before_is_laid_out_at_once)
{
	static const int order[TENSORS] = { 4, 5, 2, 0, 3, 1 };
	struct ddp *ddp = make_ddp(2400, order);
	expect_layout(ddp, order);
	cr_assert_eq(backward(ddp, (int[]){ 0, 1, 2, 3, 4, 5 }), 0);
	cr_assert_eq(ddp_begin(ddp), 0);
	expect_layout(ddp, order);
	ddp_destroy(ddp);
}

Test(ddp, an_order_that_is_none_is_refused)
{
	struct ddp *ddp;
	cr_assert_neq(ddp_create(&ddp, &alone, cpu, tensors, TENSORS,
			      &(struct ddp_config){
				      .bucket_size = 100, .order = (int[]){ 0, 1, 2, 3, 4, 4 } }),
		0);
	cr_assert_null(ddp);
	cr_assert_neq(ddp_create(&ddp, &alone, cpu, tensors, TENSORS,
			      &(struct ddp_config){
				      .bucket_size = 100, .order = (int[]){ 0, 1, 2, 3, 4, 6 } }),
		0);
}

Test(ddp, buckets_start_in_order_when_they_are_full)
{
	struct ddp *ddp = make_ddp(2400, NULL); /* { 5 } { 4 3 } { 2 1 } { 0 } */
	cr_assert_eq(ddp->bucket_count, 4);
	cr_assert_eq(ddp_begin(ddp), 0);
	static const int order[TENSORS] = { 2, 1, 5, 4, 3, 0 };
	static const int launched[TENSORS] = { 0, 0, 1, 1, 3, 4 };
	for (int i = 0; i < TENSORS; i++) {
		cr_assert_eq(ddp_ready(ddp, order[i]), 0);
		cr_assert_eq(ddp->launched, launched[i], "after %d: %d", i, ddp->launched);
	}
	cr_assert_eq(ddp_wait(ddp), 0);
	ddp_destroy(ddp);
}

Test(ddp, without_overlap_no_bucket_starts_before_the_end_of_backward)
{
	struct ddp *ddp;
	struct ddp_config config = { .bucket_size = 2400, .no_overlap = true };
	ddp_destroy(make_ddp(2400, NULL)); /* the tensors */
	cr_assert_eq(ddp_create(&ddp, &alone, cpu, tensors, TENSORS, &config), 0);
	cr_assert_eq(ddp_begin(ddp), 0);
	for (int t = TENSORS - 1; t >= 0; t--) {
		cr_assert_eq(ddp_ready(ddp, t), 0);
		cr_assert_eq(ddp->launched, 0);
	}
	cr_assert_eq(ddp_wait(ddp), 0);
	cr_assert_eq(ddp->launched, ddp->bucket_count);
	ddp_destroy(ddp);
}

Test(ddp, a_gradient_left_out_is_an_error)
{
	struct ddp *ddp = make_ddp(2400, NULL);
	cr_assert_eq(ddp_begin(ddp), 0);
	for (int t = 0; t < TENSORS - 1; t++)
		cr_assert_eq(ddp_ready(ddp, t), 0);
	cr_assert_neq(ddp_wait(ddp), 0);
	cr_assert_str_eq(failure(), "backward left a gradient out");
	ddp_destroy(ddp);
}
