/*
 * Whole training runs: ranks that share a global batch train as one rank alone does.
 *
 * How near is near: the ranks' sums are the single rank's in another order. A gradient is a sum of
 * 48 products of about 1e-3; reordering moves it by a few units in the last place of its largest
 * terms, 1e-9, and fourteen steps with a rate of 0.5 add such errors up: about 1e-8 a parameter,
 * and 1e-7 of a loss of 2. The bounds leave a factor of ten. A wrong weight of one image in the
 * last, smaller batch, or one gradient left out of an average, moves the loss by 1e-4 and more.
 */
#include <cblas.h>
#include <criterion/criterion.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "checkpoint.h"
#include "draw.h"
#include "fail.h"
#include "scratch.h"
#include "train.h"

#define IMAGES 290 /* six global batches of 48, and one of 2: fewer than there are ranks */
#define GLOBAL_BATCH 48
#define EPOCH_STEPS 7
#define STEPS (2 * EPOCH_STEPS)
#define TESTS 50
#define PARAMETERS (784 * 512 + 512 + 512 * 512 + 512 + 512 * 10 + 10)
#define RANKS_MAX 8

/* What a world of ranks came to: in memory that they share with the test. */
struct outcome {
	double losses[STEPS];
	struct score test;
	uint64_t hashes[RANKS_MAX];
	float parameters[PARAMETERS]; /* rank 0's */
	char story[256]; /* of a rank that failed */
};

/* What the ranks are to do. */
struct job {
	struct options options;
	int hosts; /* ranks pretend to be on that many */
	struct outcome *outcome;
};

static void make_data(void)
{
	scratch_make();
	openblas_set_num_threads(1);
	cr_assert_eq(draw_set(scratch_path("drawn"), IMAGES, TESTS, 3), 0, "%s", failure());
}

TestSuite(train, .init = make_data, .fini = scratch_remove, .timeout = 240);

static struct job make_job(void)
{
	struct job job = { .hosts = 1,
		.options = { .data = scratch_path(""),
			.ranks = -1,
			.epochs = 2,
			.batch = -1,
			.global_batch = GLOBAL_BATCH,

			.learning_rate = 0.5,
			.seed = -1,
			.bucket_mb = -1 } };
	job.outcome = mmap(NULL, sizeof(*job.outcome), PROT_READ | PROT_WRITE,
		MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	cr_assert_neq(job.outcome, MAP_FAILED);
	return job;
}

static void finish_job(struct job *job)
{
	munmap(job->outcome, sizeof(*job->outcome));
}

/* train_epoch(), but with every step's loss noted. */
static int note_epoch(struct train *train, struct outcome *outcome)
{
	int err = 0;
	size_t steps = sampler_steps(train->train_sampler);
	sampler_shuffle(train->train_sampler, train->options.seed, train->epochs);
	for (size_t step = 0; !err && step < steps; step++) {
		struct score score = { 0 };
		err = train_step(train, step, &score);
		double sums[2] = { score.loss, score.count };
		if (!err)
			err = world_sum(train->world, sums, 2);
		outcome->losses[train->epochs * steps + step] = sums[0] / sums[1];
	}
	train->epochs++;
	return err;
}

static int run_world(const struct job *job, const struct world *world)
{
	struct train *train;
	struct report silent;
	struct score test;
	report_init(&silent, NULL);
	int err = train_create(&train, &job->options, world, &silent);
	while (!err && train->epochs < (uint64_t)job->options.epochs)
		err = job->options.checkpoint ? train_epoch(train)
					      : note_epoch(train, job->outcome);
	if (!err)
		err = train_hash(train, &job->outcome->hashes[world->rank]);
	if (!err)
		err = train_test(train, &test);
	if (!err && !world->rank) {
		job->outcome->test = test;
		memcpy(job->outcome->parameters, train->model->parameters,
			sizeof(job->outcome->parameters));
	}
	train_destroy(train);
	return err;
}

static int nod(void *argument, int tensor)
{
	(void)argument, (void)tensor;
	return 0;
}

static int run_rank(void *argument)
{
	struct job *job = argument;
	struct world world;
	if (job->hosts > 1)
		setenv("RONDO_HOST", atoi(getenv("RANK")) % job->hosts ? "odd" : "even", 1);
	int err = world_open(&world);
	if (!err)
		err = world_close(&world, run_world(job, &world));
	if (err && err != RONDO_ABORTED)
		snprintf(job->outcome->story, sizeof(job->outcome->story), "%s", failure());
	return err != 0;
}

/*
 * What all runs are held against: one rank, written out, with gradients that are means over the
 * images of a step.
 */
static void run_plain(struct job *job)
{
	struct data *data, *test;
	struct model *model;
	struct sampler *sampler;
	static float images[GLOBAL_BATCH * 784], gradients[PARAMETERS];
	uint8_t labels[GLOBAL_BATCH];
	float *next = gradients;
	int correct;
	cr_assert_eq(data_read(&data, scratch_path("drawn"), "train"), 0);
	cr_assert_eq(data_read(&test, scratch_path("drawn"), "t10k"), 0);
	cr_assert_eq(sampler_create(&sampler, IMAGES, GLOBAL_BATCH, 0, 1), 0);
	cr_assert_eq(model_create(&model, (int[]){ 784, 512, 512, 10 }, 4, 50, 1), 0);
	for (int t = 0; t < model->tensor_count; t++) {
		model->tensors[t].grad = next;
		next += model->tensors[t].count;
	}
	for (int step = 0; step < STEPS; step++) {
		if (step % EPOCH_STEPS == 0)
			sampler_shuffle(sampler, 1, step / EPOCH_STEPS);
		int count = sampler_pick(sampler, step % EPOCH_STEPS);
		data_gather(data, sampler->picks, count, images, labels);
		model_forward(model, images, count);
		job->outcome->losses[step] = model_loss(model, labels, count, &correct) / count;
		model_backward(model, images, labels, count, 1.0f / count, nod, NULL);
		for (int i = 0; i < PARAMETERS; i++)
			model->parameters[i] -= 0.5f * gradients[i];
	}
	/* There is room for 48. */
	for (uint32_t first = 0; first < TESTS; first += TESTS / 2) {
		uint32_t picks[TESTS / 2];
		for (uint32_t i = 0; i < TESTS / 2; i++)
			picks[i] = first + i;
		data_gather(test, picks, TESTS / 2, images, labels);
		model_forward(model, images, TESTS / 2);
		job->outcome->test.loss += model_loss(model, labels, TESTS / 2, &correct);
		job->outcome->test.correct += correct;
	}
	memcpy(job->outcome->parameters, model->parameters, sizeof(job->outcome->parameters));
	model_destroy(model);
	sampler_destroy(sampler);
	data_destroy(data);
	data_destroy(test);
}

static void run_ranks(struct job *job, int size)
{
	cr_assert_eq(
		rondo_spawn(size, run_rank, job), 0, "%d ranks: %s", size, job->outcome->story);
	for (int rank = 1; rank < size; rank++)
		cr_assert_eq(job->outcome->hashes[rank], job->outcome->hashes[0]);
}

static void expect_near(const struct outcome *many, const struct outcome *one, int size)
{
	double furthest = 0;
	for (int step = 0; step < STEPS; step++)
		cr_assert(fabs(many->losses[step] - one->losses[step]) < 1e-6,
			"%d ranks, step %d: loss %.9f, alone %.9f", size, step, many->losses[step],
			one->losses[step]);
	for (int i = 0; i < PARAMETERS; i++)
		furthest = fmax(furthest, fabs(many->parameters[i] - one->parameters[i]));
	cr_assert_lt(furthest, 3e-7, "%d ranks: a parameter is off by %g", size, furthest);
	cr_assert_eq(many->test.count, TESTS);
	/* One of fifty may have been a toss-up. */
	cr_assert_float_eq(many->test.correct, one->test.correct, 1);
	cr_assert_float_eq(many->test.loss, one->test.loss, TESTS * 1e-6);
}

static void expect_ranks_like_one(int hosts)
{
	static const int sizes[] = { 1, 2, 3, 4, 8 };
	struct job one = make_job();
	run_plain(&one);
	/* Not equal by doing nothing. */
	cr_assert(one.outcome->losses[STEPS - 2] < one.outcome->losses[0] - 0.01);
	for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
		struct job many = make_job();
		many.hosts = hosts;
		run_ranks(&many, sizes[i]);
		expect_near(many.outcome, one.outcome, sizes[i]);
		finish_job(&many);
	}
	finish_job(&one);
}

Test(train, ranks_train_as_one_does_over_shm)
{
	setenv("RONDO_TRANSPORT", "shm", 1);
	expect_ranks_like_one(1);
}

Test(train, ranks_train_as_one_does_over_tcp)
{
	setenv("RONDO_TRANSPORT", "tcp", 1);
	expect_ranks_like_one(1);
}

Test(train, ranks_train_as_one_does_over_shm_and_tcp_mixed)
{
	expect_ranks_like_one(2);
}

Test(train, a_rank_without_a_launcher_trains_as_one)
{
	static const struct world alone = { .size = 1 };
	struct job one = make_job(), many = make_job();
	run_plain(&one);
	cr_assert_eq(run_world(&many, &alone), 0, "%s", failure());
	expect_near(many.outcome, one.outcome, 1);
	finish_job(&one);
	finish_job(&many);
}

Test(train, whole_epochs_are_their_steps)
{
	struct job one = make_job(), many = make_job();
	run_plain(&one);
	many.options.checkpoint = scratch_path("it");
	memcpy(many.outcome->losses, one.outcome->losses, sizeof(one.outcome->losses));
	run_ranks(&many, 2);
	expect_near(many.outcome, one.outcome, 2);
	finish_job(&one);
	finish_job(&many);
}

Test(train, many_small_buckets_change_nothing_but_rounding)
{
	struct job one = make_job(), many = make_job();
	run_plain(&one);
	many.options.bucket_mb = 0.001;
	run_ranks(&many, 3);
	expect_near(many.outcome, one.outcome, 3);
	finish_job(&one);
	finish_job(&many);
}

Test(train, a_run_is_the_same_every_time)
{
	struct job first = make_job(), second = make_job();
	run_ranks(&first, 3);
	run_ranks(&second, 3);
	cr_assert_eq(first.outcome->hashes[0], second.outcome->hashes[0]);
	finish_job(&first);
	finish_job(&second);
}

Test(train, a_resumed_run_goes_on_to_the_bit)
{
	for (int size = 1; size <= 3; size += 2) {
		struct job whole = make_job(), half = make_job(), rest = make_job();
		whole.options.epochs = half.options.epochs = 3;
		whole.options.seed = half.options.seed = 77;
		whole.options.checkpoint = scratch_path("whole");
		run_ranks(&whole, size);
		half.options.epochs = 1;
		half.options.checkpoint = rest.options.checkpoint = scratch_path("half");
		run_ranks(&half, size);
		/* Seed and global batch come from the checkpoint. */
		rest.options.resume = scratch_path("half");
		rest.options.global_batch = -1;
		rest.options.epochs = 3;
		run_ranks(&rest, size);
		cr_assert_eq(rest.outcome->hashes[0], whole.outcome->hashes[0]);
		cr_assert_neq(half.outcome->hashes[0], whole.outcome->hashes[0]);
		finish_job(&whole);
		finish_job(&half);
		finish_job(&rest);
	}
}

Test(train, a_checkpoint_of_two_ranks_resumes_on_four)
{
	struct job two = make_job(), four = make_job(), one = make_job();
	run_plain(&one);
	two.options.epochs = 1;
	two.options.checkpoint = scratch_path("it");
	run_ranks(&two, 2);
	four.options.resume = scratch_path("it");
	memcpy(four.outcome->losses, one.outcome->losses, sizeof(one.outcome->losses) / 2);
	run_ranks(&four, 4);
	expect_near(four.outcome, one.outcome, 4);
	finish_job(&one);
	finish_job(&two);
	finish_job(&four);
}

/* All ranks end, and one of them says this. */
static void expect_failure(struct job *job, int size, const char *story)
{
	cr_assert_gt(rondo_spawn(size, run_rank, job), 0);
	cr_assert(strstr(job->outcome->story, story), "'%s' is not in: %s", story,
		job->outcome->story);
	finish_job(job);
}

Test(train, what_one_rank_finds_wrong_ends_all_with_one_story)
{
	struct job missing = make_job(), uneven = make_job(), lost = make_job();
	missing.options.data = scratch_path("nothing");
	missing.options.set = set_named("fashion");
	expect_failure(&missing, 3, "holds no FashionMNIST");
	uneven.options.global_batch = 50;
	expect_failure(&uneven, 3, "does not divide by 3 ranks");
	lost.options.resume = scratch_path("lost");
	expect_failure(&lost, 3, "lost: No such file");
}

Test(train, a_checkpoint_that_cannot_be_saved_ends_all_ranks)
{
	struct job job = make_job();
	job.options.checkpoint = scratch_path("no/such/dir");
	expect_failure(&job, 2, "no/such/dir: cannot write");
}
