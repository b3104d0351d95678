/* SIGTERM in a run that saves: all ranks end after one step, and the run continues to the bit. */
#include <criterion/criterion.h>
#include <sched.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "train/base/fail.h"
#include "train/checkpoint/checkpoint.h"
#include "train/job.h"
#include "train/option_table.h"
#include "train/scratch.h"

TestSuite(interrupt, .init = make_data, .fini = scratch_remove, .timeout = 600);

enum { NOBODY, ONE_RANK, THE_PARENT };
static int victim;

/* In its second step, rank 1 sends SIGTERM. The ranks ask each other after the first step, and then
   after two steps at the latest. */
int __real_train_step(struct train *train, size_t step);
int __wrap_train_step(struct train *train, size_t step);
int __wrap_train_step(struct train *train, size_t step)
{
	if (victim && train->world->rank == 1 && train->step == 1) {
		kill(victim == ONE_RANK ? getpid() : getppid(), SIGTERM);
		/* The parent may get a processor later than the last step. */
		while (!interrupt_came())
			sched_yield();
	}
	return __real_train_step(train, step);
}

static void stop(int whom, struct job *job)
{
	victim = whom;
	job->reports = true;
	job->options.checkpoint = scratch_path("it");
	job->options.metrics.paths[0] = scratch_path("run.csv");
	job->options.metrics.count = 1;
	cr_assert_eq(interrupt_catch(), 0, "%s", failure());
	run_ranks(job, 2);
	victim = NOBODY;
	const char *report = job->outcome->report, *saved = strstr(report, "Saved checkpoint ");
	cr_assert(saved && strstr(saved, ", at SIGTERM\n"), "%s", report);
	cr_assert_null(strstr(saved + 1, "Saved"), "%s", report);
	cr_assert_null(strstr(report, "Test Error"), "%s", report);
	cr_assert_eq(scratch_count(), 7, "more than the set, the checkpoint and the metrics");
}

static void expect_resumed(int whom)
{
	struct job whole = make_job(), half = make_job(), rest = make_job();
	whole.options.momentum = half.options.momentum = 0.9;
	whole.reports = true;
	run_ranks(&whole, 2);
	stop(whom, &half);
	rest.options = half.options;
	rest.options.checkpoint = NULL;
	rest.options.resume = scratch_path("it");
	rest.options.workers = 2;
	rest.reports = true;
	run_ranks(&rest, 2);
	cr_assert_eq(rest.outcome->hashes[0], whole.outcome->hashes[0]);
	cr_assert_neq(half.outcome->hashes[0], whole.outcome->hashes[0]);
	cr_assert(strstr(rest.outcome->report, "  [  290/  290]  step 7, "));
}

Test(interrupt, a_run_that_one_rank_must_leave_saves_once_and_continues_to_the_bit)
{
	expect_resumed(ONE_RANK);
	struct job other = make_job();
	other.options.resume = scratch_path("it");
	other.options.global_batch = 50;
	other.options.given[option_number("global-batch")] = true;
	expect_failure(&other, 2, "of 290 samples of an epoch, where no step of 50 samples ends");
}

Test(interrupt, the_process_that_waits_for_the_ranks_passes_the_signal_on)
{
	expect_resumed(THE_PARENT);
}

/* Fast steps double the distance between questions; later steps may be slow. */
Test(interrupt, fast_steps_put_the_next_question_off_by_few)
{
	struct interrupt interrupt = { 0 };
	struct train_world world = { .size = 1 };
	bool stops;

	for (int64_t step = 0; step < 1000; step++) {
		cr_assert_eq(interrupt_check(&interrupt, &world, step, &stops), 0);
		cr_assert_leq(interrupt.step - step, 16);
	}
}

/* A resumed run starts from rank 0's values, however late a device copies what a rank drew. */

TestSuite(late_copies, .init = make_data, .fini = scratch_remove, .timeout = 600);

/* A put of rank 1's that its device has yet to do. */
static struct {
	const struct device_ops *ops; /* of the device itself */
	void *to, *bytes;
	size_t size;
} late;

static void copy_now(struct device *device)
{
	if (late.bytes)
		late.ops->put(device, late.to, late.bytes, late.size);
	free(late.bytes);
	late.bytes = NULL;
}

static void put(struct device *device, void *to, const void *from, size_t size)
{
	copy_now(device);
	late.to = to;
	late.size = size;
	late.bytes = malloc(size);
	cr_assert(late.bytes);
	memcpy(late.bytes, from, size);
}

static int wait(struct device *device)
{
	copy_now(device);
	return late.ops->wait(device);
}

static void delay(struct device *device, int rank)
{
	static struct device_ops ops;
	if (rank != 1)
		return;
	late.ops = device->ops;
	ops = *device->ops;
	ops.put = put;
	ops.wait = wait;
	device->ops = &ops;
}

Test(late_copies, are_waited_for_before_ranks_share_a_checkpoint)
{
	struct job half = make_job(), rest = make_job();
	half.options.epochs = 1;
	half.options.checkpoint = rest.options.resume = scratch_path("half");
	run_ranks(&half, 2);
	rest.options.global_batch = -1;
	rest.reports = true; /* it waits for the device after each epoch */
	rest.opened = delay;
	run_ranks(&rest, 2);
}
