#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "train/base/fail.h"
#include "train/parallel/same.h"

#define SIZE 3

/* Shared with the ranks. */
static char (*reasons)[512]; /* [SIZE]: of the rank that failed with one */

static void share(void)
{
	reasons = mmap(NULL, SIZE * sizeof(*reasons), PROT_READ | PROT_WRITE,
		MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	cr_assert_neq(reasons, MAP_FAILED);
}

TestSuite(same, .init = share, .timeout = 60);

enum difference { NONE, SHAPE, NAME, ONE_MORE, SETTING };

static int run_rank(void *argument)
{
	struct train_world world;
	enum difference difference = *(enum difference *)argument;
	struct tensor list[3] = { { .name = "0.weight", .dims = 2, .shape = { 6, 2 } },
		{ .name = "0.bias", .dims = 1, .shape = { 6 } },
		{ .name = "2.weight", .dims = 2, .shape = { 3, 4 } } };
	struct tensors tensors = { .list = list, .count = 2 };
	int err = world_open(&world, -1);
	if (world.rank == 2 && difference == SHAPE)
		list[1].shape[0] = 7;
	if (world.rank == 1 && difference == NAME)
		strcpy(list[0].name, "0.weights");
	if (world.rank == 1 && difference == ONE_MORE)
		tensors.count = 3;
	const char *settings = world.rank == 2 && difference == SETTING ? "--seed 1\n--lr 2\n"
									: "--seed 1\n--lr 1\n";
	if (!err)
		err = same_settings(&world, settings, strlen(settings));
	if (!err)
		err = same_tensors(&world, &tensors);
	if (err && err != RONDO_REVOKED)
		snprintf(reasons[world.rank], sizeof(reasons[0]), "%s", failure());
	return world_close(&world, err) != 0;
}

/* ---- Values ---- */

/* The ranks whose values a bit flip has changed, as bits, and by rank the element. */
struct damage {
	unsigned ranks;
	int element[SIZE];
};

static int run_values(void *argument)
{
	const struct damage *damage = argument;
	struct train_world world;
	float values[48] = { 0 };
	uint64_t hash;
	struct tensor list[2] = { { .name = "0.weight", .count = 12, .value = values },
		{ .name = "0.bias", .count = 6, .value = values + 16 } };
	struct tensors tensors = { .list = list, .count = 2, .elements = 32, .values = values };
	int err = world_open(&world, -1);
	if (damage->ranks >> world.rank & 1)
		values[damage->element[world.rank]] = 1;
	if (!err)
		err = same_values(&world, 10 * world.rank, &tensors, values, "values", &hash);
	if (err && err != RONDO_REVOKED)
		snprintf(reasons[world.rank], sizeof(reasons[0]), "%s", failure());
	return world_close(&world, err) != 0;
}

static void expect_values(struct damage damage, const char *reason)
{
	memset(reasons, 0, SIZE * sizeof(*reasons));
	cr_assert_eq(rondo_spawn(SIZE, run_values, &damage) != 0, damage.ranks != 0);
	cr_assert_str_eq(reasons[0], reason);
	cr_assert_str_empty(reasons[1]);
	cr_assert_str_empty(reasons[2]);
}

Test(same, the_ranks_and_the_first_tensor_with_other_values_are_named_once)
{
	expect_values((struct damage){ 0 }, "");
	expect_values((struct damage){ 2, { 0, 17, 0 } },
		"values differ: rank 10 from rank 0, first in 0.bias");
	expect_values((struct damage){ 4, { 0, 0, 11 } },
		"values differ: rank 20 from rank 0, first in 0.weight");
	/* Most ranks are right. */
	expect_values((struct damage){ 1, { 21, 0, 0 } },
		"values differ: rank 0 from rank 10, first in 0.bias");
	expect_values((struct damage){ 6, { 0, 16, 0 } },
		"values differ: ranks 10, 20 from rank 0, first in 0.weight");
	expect_values((struct damage){ 6, { 0, 0, 16 } },
		"values differ: ranks 10, 20 from rank 0, first in 0.weight");
	expect_values(
		(struct damage){ 4, { 0, 0, 13 } }, "values differ between ranks, in no tensor");
}

/* ---- Models and settings ---- */

static void expect(enum difference difference, const char *reason)
{
	memset(reasons, 0, SIZE * sizeof(*reasons));
	cr_assert_eq(rondo_spawn(SIZE, run_rank, &difference) != 0, difference != NONE);
	cr_assert_str_eq(reasons[0], reason);
	/* The others were aborted. */
	cr_assert_str_empty(reasons[1]);
	cr_assert_str_empty(reasons[2]);
}

Test(same, equal_ones_pass_and_the_first_difference_is_named_once)
{
	expect(NONE, "");
	expect(SHAPE, "ranks have different models: parameter 1 is 0.bias: f32 [6] on rank 0, but "
		      "0.bias: f32 [7] on rank 2");
	expect(NAME, "ranks have different models: parameter 0 is 0.weight: f32 [6, 2] on rank 0, "
		     "but 0.weights: f32 [6, 2] on rank 1");
	expect(SETTING, "ranks have different settings: --lr 1 on rank 0, but --lr 2 on rank 2");
	expect(ONE_MORE, "ranks have different models: parameter 2 is nothing on rank 0, but "
			 "2.weight: f32 [3, 4] on rank 1");
}
