#include <criterion/criterion.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "train/base/fail.h"
#include "train/world/world.h"

#define SIZE 3

/* Shared with the ranks. */
static struct {
	char reasons[SIZE][256]; /* the reason, of a rank that failed */
	pthread_barrier_t all_have_left;
} * shared;

static void share(void)
{
	shared = mmap(
		NULL, sizeof(*shared), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	cr_assert_neq(shared, MAP_FAILED);
	pthread_barrierattr_t between_processes;
	pthread_barrierattr_init(&between_processes);
	pthread_barrierattr_setpshared(&between_processes, PTHREAD_PROCESS_SHARED);
	pthread_barrier_init(&shared->all_have_left, &between_processes, SIZE);
}

TestSuite(world, .init = share, .timeout = 60);

/* Runs work in each rank; a failure leaves its reason. */
static int run_rank(void *work)
{
	struct train_world world;
	/* By the environment: a rank may learn of a failure while it still meets the others. */
	int err = world_open(&world, -1), rank = atoi(getenv("RANK"));
	if (!err)
		err = world_close(&world, ((int (*)(const struct train_world *))work)(&world));
	if (err)
		snprintf(shared->reasons[rank], sizeof(shared->reasons[rank]), "%s",
			err < 0 ? rondo_last_error() : failure());
	return err != 0;
}

/* The same, but ends when all have left: else the first failure would end the others. */
static int run_rank_and_stay(void *work)
{
	int status = run_rank(work);
	pthread_barrier_wait(&shared->all_have_left);
	return status;
}

static int compare_same(const struct train_world *world)
{
	bool same = false;
	int err = world_same(world, 77, &same);
	return err ? err : same ? 0 : fail("77 is not 77");
}

static int compare_different(const struct train_world *world)
{
	bool same = true;
	int err = world_same(world, world->rank == 2 ? 0xabc : 0xdef, &same);
	return err ? err : same ? fail("0xabc is 0xdef") : 0;
}

static int sum(const struct train_world *world)
{
	double values[2] = { world->rank, 1 };
	int err = world_sum(world, values, 2);
	return err ? err : values[0] == 3 && values[1] == 3 ? 0 : fail("wrong sum");
}

static int broadcast(const struct train_world *world)
{
	char word[6] = "other";
	if (!world->rank)
		memcpy(word, "first", 6);
	int err = world_broadcast(world, word, sizeof(word));
	return err ? err : strcmp(word, "first") ? fail("wrong word") : 0;
}

static int fail_on_rank_1(const struct train_world *world)
{
	return world->rank == 1 ? fail("rank 1 has no more paper") : world_barrier(world);
}

/* Rank 0 is well, and the other two have found the same. */
static int agree_on_failure(const struct train_world *world)
{
	int err = world->rank ? fail("rank %d lacks ink", world->rank) : 0;
	return world_agree(world, err);
}

static int agree_on_success(const struct train_world *world)
{
	return world_agree(world, 0);
}

Test(world, sums_and_broadcasts_reach_all)
{
	cr_assert_eq(rondo_spawn(SIZE, run_rank, sum), 0);
	cr_assert_eq(rondo_spawn(SIZE, run_rank, broadcast), 0);
}

Test(world, ranks_find_out_whether_they_have_the_same_number)
{
	cr_assert_eq(rondo_spawn(SIZE, run_rank, compare_same), 0);
	cr_assert_eq(rondo_spawn(SIZE, run_rank, compare_different), 0);
}

Test(world, alone_there_is_nothing_to_do)
{
	struct train_world world;
	double value = 5;
	cr_assert_eq(world_open(&world, -1), 0);
	cr_assert_eq(world.size, 1);
	cr_assert_eq(world_sum(&world, &value, 1), 0);
	cr_assert_eq(value, 5);
	cr_assert_eq(world_barrier(&world), 0);
	cr_assert_eq(world_agree(&world, 0), 0);
	cr_assert_eq(world_agree(&world, 7), 7);
	cr_assert_eq(world_close(&world, 0), 0);
	cr_assert_eq(world_close(&world, 1), 1);
}

Test(world, the_reason_of_a_failure_reaches_all_ranks)
{
	cr_assert_neq(rondo_spawn(SIZE, run_rank_and_stay, fail_on_rank_1), 0);
	cr_assert_str_eq(shared->reasons[1], "rank 1 has no more paper");
	cr_assert(strstr(shared->reasons[0], "no more paper"), "%s", shared->reasons[0]);
	cr_assert(strstr(shared->reasons[2], "no more paper"), "%s", shared->reasons[2]);
}

Test(world, one_rank_reports_an_error_of_many)
{
	cr_assert_eq(rondo_spawn(SIZE, run_rank, agree_on_success), 0);
	cr_assert_neq(rondo_spawn(SIZE, run_rank_and_stay, agree_on_failure), 0);
	cr_assert_str_eq(shared->reasons[1], "rank 1 lacks ink");
	cr_assert_null(strstr(shared->reasons[2], "rank 2 lacks ink"), "%s", shared->reasons[2]);
}
