/* The work that devices run in calls by direct access: how many bytes it moves. */
#include <criterion/criterion.h>

#include "gpu/compile_direct.h"
#include "plan/collective.h"
#include "tuner/eligible.h"

/* A multiple of all shares' alignment for up to five ranks. */
#define COUNT ((size_t)3840)
#define BLOCK (COUNT * sizeof(float))

static bool runs_on_devices(const struct rd_algorithm *algorithm)
{
	return algorithm->on_devices;
}

/* Bytes that a step reads and writes, if no two buffers of a rank are one. */
static size_t moved_by(const struct rd_work *work, const struct rd_work_step *step)
{
	size_t size = step->count * sizeof(float), ranks = (size_t)work->size;

	switch (step->kind) {
	case RD_WORK_COMBINE:
		return size * (ranks + (step->peer < 0 ? ranks : 1));
	case RD_WORK_SPREAD:
		return size * (1 + ranks);
	case RD_WORK_SWAP:
		return size * 4;
	default:
		return size * 2;
	}
}

/* By all ranks together. */
static size_t moved(enum rd_collective collective, int size)
{
	size_t all = 0;

	for (int rank = 0; rank < size; rank++) {
		struct rd_call call = {
			.problem = { .collective = collective, .rank = rank, .size = size },
			.type = RONDO_F32,
			.count = COUNT,
		};
		struct rd_plan *plan;
		struct rd_work work;

		cr_assert_eq(
			rd_plan_create(&plan, rd_algorithm_with(&call.problem, runs_on_devices),
				&call.problem),
			0);
		cr_assert(rd_compile_direct(&work, plan, &call));
		for (int i = 0; i < work.step_count; i++)
			all += moved_by(&work, &work.steps[i]);
		rd_plan_destroy(plan);
	}
	return all;
}

/* Each byte is read once and written into each output: the least possible. */
Test(compile_direct, all_gather_and_broadcast_read_each_byte_once)
{
	for (int size = 2; size <= 5; size++) {
		size_t out = BLOCK * (size_t)size;

		cr_expect_eq(moved(RD_ALL_GATHER, size), out * (1 + (size_t)size), "%d: %zu of %zu",
			size, moved(RD_ALL_GATHER, size), out);
		cr_expect_eq(moved(RD_BROADCAST, size), BLOCK * (1 + (size_t)size),
			"%d: %zu of %zu", size, moved(RD_BROADCAST, size), BLOCK);
	}
}

Test(compile_direct, reductions_read_and_write_each_byte_once)
{
	cr_expect_eq(moved(RD_ALL_REDUCE, 4), BLOCK * 8);
	cr_expect_eq(moved(RD_REDUCE, 4), BLOCK * 5);
	cr_expect_eq(moved(RD_REDUCE_SCATTER, 4), BLOCK * 4 * 5);
}
