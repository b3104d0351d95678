#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>

#include "train/data/sampler.h"

#define COUNT 1003
#define GLOBAL_BATCH 24

/* How often each image is picked in a step, by all ranks of a world of that size. */
static size_t count_picks(int size, size_t step, int times[COUNT])
{
	size_t total = 0;
	for (int rank = 0; rank < size; rank++) {
		struct sampler *sampler;
		cr_assert_eq(sampler_create(&sampler, COUNT, GLOBAL_BATCH, rank, size), 0);
		sampler_shuffle(sampler, 5, 2);
		size_t count = sampler_pick(sampler, step);
		cr_assert_leq(count, sampler_batch_max(sampler));
		for (size_t i = 0; i < count; i++)
			times[sampler->picks[i]]++;
		total += count;
		cr_assert_eq(sampler_steps(sampler), 42);
		sampler_destroy(sampler);
	}
	return total;
}

Test(sampler, every_image_comes_up_once_an_epoch)
{
	for (int size = 1; size <= 8; size++) {
		int times[COUNT] = { 0 };
		for (size_t step = 0; step < 42; step++)
			count_picks(size, step, times);
		for (int i = 0; i < COUNT; i++)
			cr_assert_eq(
				times[i], 1, "image %d, %d ranks: %d times", i, size, times[i]);
	}
}

Test(sampler, a_step_takes_the_same_images_on_any_number_of_ranks)
{
	/* The last step has 19 images: on 8 ranks, three each for some, two for others. */
	for (size_t step = 0; step < 42; step++) {
		int alone[COUNT] = { 0 };
		size_t count = count_picks(1, step, alone);
		cr_assert_eq(count, step == 41 ? 19 : 24);
		for (int size = 2; size <= 8; size++) {
			int together[COUNT] = { 0 };
			cr_assert_eq(count_picks(size, step, together), count);
			cr_assert_arr_eq(together, alone, sizeof(alone));
		}
	}
}

Test(sampler, ranks_share_a_step_as_evenly_as_can_be)
{
	for (int size = 1; size <= 8; size++) {
		for (int rank = 0; rank < size; rank++) {
			struct sampler *sampler;
			cr_assert_eq(sampler_create(&sampler, COUNT, GLOBAL_BATCH, rank, size), 0);
			for (size_t step = 0; step < 42; step++) {
				size_t share = sampler_global_count(sampler, step) / size;
				size_t count = sampler_pick(sampler, step);
				cr_assert(count == share || count == share + 1);
			}
			sampler_destroy(sampler);
		}
	}
}

Test(sampler, the_order_follows_from_seed_and_epoch_alone)
{
	struct sampler *one, *other;
	cr_assert_eq(sampler_create(&one, COUNT, GLOBAL_BATCH, 0, 1), 0);
	cr_assert_eq(sampler_create(&other, COUNT, GLOBAL_BATCH, 2, 3), 0);
	size_t size = COUNT * sizeof(*one->order);
	sampler_shuffle(one, 1, 0);
	sampler_shuffle(one, 1, 1);
	sampler_shuffle(other, 1, 1);
	cr_assert_arr_eq(one->order, other->order, size);
	sampler_shuffle(other, 1, 2);
	cr_assert_arr_neq(one->order, other->order, size);
	sampler_shuffle(other, 2, 1);
	cr_assert_arr_neq(one->order, other->order, size);
	sampler_destroy(one);
	sampler_destroy(other);
}

Test(sampler, a_shuffle_leaves_few_images_where_they_were)
{
	struct sampler *sampler;
	int same = 0;
	cr_assert_eq(sampler_create(&sampler, COUNT, GLOBAL_BATCH, 0, 1), 0);
	sampler_shuffle(sampler, 1, 0);
	for (uint32_t i = 0; i < COUNT; i++)
		same += sampler->order[i] == i;
	cr_assert_lt(same, 10);
	sampler_destroy(sampler);
}

/* The images of one part of a step, for all steps one after the other; returns their number. */
static size_t list_part(int rank, int size, int parts, int part, uint32_t images[COUNT])
{
	struct sampler *sampler;
	size_t total = 0;
	cr_assert_eq(sampler_create(&sampler, COUNT, GLOBAL_BATCH, rank, size), 0);
	cr_assert_eq(sampler_divide(sampler, parts, true), 0);
	sampler_shuffle(sampler, 5, 2);
	for (size_t step = 0; step < sampler_steps(sampler); step++) {
		size_t first = 0, count = sampler_part_count(sampler, step, part);
		for (int before = 0; before < part; before++)
			first += sampler_part_count(sampler, step, before);
		cr_assert_leq(first + count, sampler_pick(sampler, step));
		cr_assert_leq(count, sampler_part_max(sampler));
		memcpy(images + total, sampler->picks + first, count * sizeof(*images));
		total += count;
	}
	sampler_destroy(sampler);
	return total;
}

Test(sampler, parts_rank_by_rank_do_not_depend_on_the_number_of_ranks)
{
	static uint32_t alone[COUNT], together[COUNT];
	size_t all = 0;
	for (int part = 0; part < 8; part++) {
		size_t count = list_part(0, 1, 8, part, alone);
		all += count;
		for (int size = 2; size <= 8; size *= 2) {
			int parts = 8 / size;
			cr_assert_eq(list_part(part / parts, size, parts, part % parts, together),
				count);
			cr_assert_arr_eq(together, alone, count * sizeof(*alone));
		}
	}
	cr_assert_eq(all, COUNT);
}

Test(sampler, parts_share_a_step_evenly_among_ranks)
{
	for (int rank = 0; rank < 3; rank++) {
		struct sampler *sampler;
		int times[COUNT] = { 0 };
		cr_assert_eq(sampler_create(&sampler, COUNT, GLOBAL_BATCH, rank, 3), 0);
		cr_assert_eq(sampler_divide(sampler, 5, false), 0);
		cr_assert_eq(sampler_pick(sampler, 0), 8);
		for (int i = 0; i < 8; i++)
			cr_assert_eq(times[sampler->picks[i]]++, 0);
		for (int part = 0; part < 5; part++)
			cr_assert_eq(sampler_part_count(sampler, 0, part), part < 3 ? 2 : 1);
		sampler_destroy(sampler);
	}
}

Test(sampler, parts_of_all_ranks_add_up_to_the_step)
{
	for (int size = 1; size <= 5; size++) {
		for (int ordered = 0; ordered < 2; ordered++) {
			struct sampler *sampler;
			cr_assert_eq(sampler_create(&sampler, 53, 20, size - 1, size), 0);
			cr_assert_eq(sampler_divide(sampler, 3, ordered), 0);
			for (size_t step = 0; step < 3; step++) {
				size_t total = 0, own = 0;
				for (int part = 0; part < 3; part++) {
					total += sampler_part_total(sampler, step, part);
					own += sampler_part_count(sampler, step, part);
				}
				cr_assert_eq(total, sampler_global_count(sampler, step));
				cr_assert(size > 1 || own == total);
			}
			sampler_destroy(sampler);
		}
	}
}
