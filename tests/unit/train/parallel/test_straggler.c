#include <criterion/criterion.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "train/base/fail.h"
#include "train/parallel/straggler.h"
#include "train/rounding.h"

#define SIZE 3

/* Rank 1 waits least in each of 4 steps of 2 buckets. */
static int run_rank(void *unused)
{
	static const double waits[SIZE] = { 0.003, 0.001, 0.0055 };
	struct train_world world;
	struct straggler straggler = { 0 };
	int rank = -1, wrong = 0, err = world_open(&world, -1);
	double late_s = 0;
	(void)unused;
	for (int round = 0; !err && round < 2; round++) {
		/* In the second round, rank 0 waits least. */
		double wait_s = round && !world.rank ? 0 : waits[world.rank];
		for (int bucket = 0; bucket < 8; bucket++)
			straggler_note(&straggler, &(struct bucket_times){ .launched_s = 0.5,
							   .done_s = 0.5 + wait_s / 2 });
		err = straggler_find(&straggler, &world, 2, &rank, &late_s);
		double expected_s = round ? 0.0055 : 0.0045;
		/* Each of 8 buckets rounds two times, their difference and the sum. */
		wrong |= rank != !round ||
			 !(fabs(late_s - expected_s) <= ROUNDING_OF_DOUBLES(8 * 4, 1));
	}
	return world_close(&world, err) || wrong;
}

Test(straggler, the_rank_that_waits_least_is_the_last_to_launch, .timeout = 60)
{
	cr_assert_eq(rondo_spawn(SIZE, run_rank, NULL), 0);
}
