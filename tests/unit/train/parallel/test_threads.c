/* ctest label: threads */
/* Ranks that are threads of one process. */
#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "train/base/fail.h"
#include "train/job.h"
#include "train/scratch.h"
#include "train/threads.h"

TestSuite(threads_of_ranks, .init = make_data, .fini = scratch_remove, .timeout = 600);

#define THREADS 3
#define THREADS_MAX 4

static struct job job;
static char reasons[THREADS_MAX][512]; /* of each thread */

static int run(const struct place_of_rank *place)
{
	int status = run_rank_as(&job, place->config, place->local_rank);
	snprintf(reasons[place->local_rank], sizeof(reasons[0]), "%s", failure());
	return status;
}

Test(threads_of_ranks, threads_train_as_processes_do)
{
	struct job processes = make_job();
	job = make_job();
	job.options.momentum = processes.options.momentum = 0.9;
	job.options.learning_rate = processes.options.learning_rate = 0.1;
	cr_assert_eq(threads_run(&job.options, THREADS, 0, run), 0, "%s", reasons[0]);
	run_ranks(&processes, THREADS);
	for (int rank = 0; rank < THREADS; rank++)
		cr_assert_eq(job.outcome->hashes[rank], processes.outcome->hashes[0]);
}

static void fail_rank_1(struct train *train)
{
	struct device *device = train->device;
	if (train->world->rank != 1)
		return;
	device->error = 1;
	snprintf(device->reason, sizeof(device->reason), "GPU 1 fell off the bus");
}

Test(threads_of_ranks, a_thread_that_fails_ends_all_and_each_has_its_own_reason)
{
	/* With several comms, too, a rank may wait in each. */
	for (int deterministic = 0; deterministic < 2; deterministic++) {
		int threads = deterministic ? 4 : 3;
		job = make_job();
		job.options.deterministic = deterministic;
		job.created = fail_rank_1;
		cr_assert_neq(threads_run(&job.options, threads, 0, run), 0);
		cr_assert_str_eq(reasons[1], "GPU 1 fell off the bus");
		for (int rank = 0; rank < threads; rank++)
			cr_assert(rank == 1 || strstr(reasons[rank], "rank "), "rank %d: %s", rank,
				reasons[rank]);
	}
}

Test(threads_of_ranks, a_deterministic_run_has_the_bits_of_processes)
{
	struct job processes = make_job();
	job = make_job();
	job.options.deterministic = processes.options.deterministic = true;
	job.options.zero = true;
	cr_assert_eq(threads_run(&job.options, 2, 0, run), 0, "%s", reasons[0]);
	run_ranks(&processes, 4);
	cr_assert_eq(job.outcome->hashes[0], processes.outcome->hashes[0]);
}

/* ---- A model in two halves, on two devices of a process ---- */

static struct job halves(void)
{
	struct job made = make_job();
	made.options.pipeline = 2;
	made.options.accumulate = 3;
	return made;
}

static int run_process(void *unused)
{
	(void)unused;
	return threads_run(&job.options, 2, atoi(getenv("LOCAL_RANK")), run);
}

Test(threads_of_ranks, a_model_in_two_halves_trains_as_the_whole)
{
	struct job plain = make_job();
	run_plain(&plain);
	job = halves();
	cr_assert_eq(threads_run(&job.options, 2, 0, run), 0, "%s", reasons[0]);
	expect_near_losses(job.outcome, plain.outcome, 2);
}

Test(threads_of_ranks, replicas_in_two_halves_train_as_the_whole)
{
	struct job plain = make_job();
	run_plain(&plain);
	job = halves();
	cr_assert_eq(rondo_spawn(2, run_process, NULL), 0, "%s", job.outcome->reason);
	expect_near_losses(job.outcome, plain.outcome, 2);
}

Test(threads_of_ranks, a_half_that_fails_ends_the_other)
{
	job = halves();
	job.created = fail_rank_1;
	cr_assert_neq(threads_run(&job.options, 2, 0, run), 0);
	cr_assert_str_eq(reasons[1], "GPU 1 fell off the bus");
	cr_assert(strstr(reasons[0], "rank 1"), "%s", reasons[0]);
}
