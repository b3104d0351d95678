#include "train/job.h"

#include <cblas.h>
#include <criterion/criterion.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "train/data/sets.h"
#include "train/base/fail.h"
#include "train/option_table.h"
#include "train/scratch.h"
#include "train/small.h"

void make_data(void)
{
	scratch_make();
	openblas_set_num_threads(1);
	cr_assert_eq(
		set_draw(set_named("drawn"), scratch_path(""), IMAGES, TESTS), 0, "%s", failure());
}

struct job make_job(void)
{
	struct job job = { .hosts = 1,
		.options = { .data = scratch_path(""),
			.ranks = -1,
			.epochs = 2,
			.accumulate = 1,
			.report_every = 100,
			.tensor = 1,
			.pipeline = 1,
			.shards = 8,
			.batch = -1,
			.global_batch = GLOBAL_BATCH,

			.learning_rate = 0.5,
			.seed = -1,
			.bucket_mb = -1 } };
	job.options.given[option_number("epochs")] = true; /* a checkpoint does not set them */
	job.outcome = mmap(NULL, sizeof(*job.outcome), PROT_READ | PROT_WRITE,
		MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	cr_assert_neq(job.outcome, MAP_FAILED);
	return job;
}

/* train_epoch() that records every step's loss. */
static int note_epoch(struct train *train, const struct job *job)
{
	struct job_outcome *outcome = job->outcome;
	int err = 0;
	size_t steps = sampler_steps(train->train_sampler);
	for (size_t step = 0; !err && step < steps; step++) {
		struct totals totals = { 0 };
		if (job->before_step)
			job->before_step(train->world->rank, (int)step);
		if (job->change)
			job->change(train, (int)step);
		err = train_step(train, step);
		if (!err)
			err = train_totals(train, &totals);
		if (!train->world->rank)
			outcome->losses[train->epochs * steps + step] = totals.loss / totals.count;
	}
	train->epochs++;
	return err;
}

int job_parameters(const struct model *model, float *parameters)
{
	size_t count = 0;
	for (int t = 0; t < model->parameters.count; t++)
		count += model->parameters.list[t].count;
	if (count > PARAMETERS)
		return 0;
	float *values = malloc(model->parameters.elements * sizeof(float));
	int err = values ? model_read(model, &model->parameters, values) : fail("out of memory");
	if (!err)
		small_dense(model, values, parameters);
	free(values);
	return err;
}

static int train_all(const struct job *job, struct train *train)
{
	struct job_outcome *outcome = job->outcome;
	int err = 0;
	while (!err && !train_done(train))
		err = job->options.checkpoint || job->reports ? train_epoch(train)
							      : note_epoch(train, job);
	if (!err)
		err = train_finish(train);
	if (!err)
		err = train_hash(train, &outcome->hashes[train->world->rank]);
	struct totals test;
	if (!err && job->before_test)
		job->before_test(train);
	if (!err)
		err = train_test(train, &test);
	if (err || train->world->rank)
		return err;
	outcome->test = test;
	return job_parameters(train->model, outcome->parameters);
}

static int run_world(const struct job *job, const struct train_world *world, struct device *device)
{
	struct train *train;
	struct report report;
	struct groups groups;
	FILE *out = NULL;
	if (job->reports && !world->rank)
		out = fmemopen(job->outcome->report, sizeof(job->outcome->report), "w");
	report_init(&report, out);
	int err = groups_open(&groups, world, job->options.tensor, job->options.pipeline);
	if (err)
		return groups_close(&groups, err);
	err = train_create(&train, &job->options, &groups, device, &report);
	if (!err && job->created)
		job->created(train);
	if (!err)
		err = train_all(job, train);
	if (err > 0)
		world_abort(world);
	train_destroy(train);
	if (out)
		fclose(out);
	return groups_close(&groups, err);
}

int run_rank_as(struct job *job, const struct rondo_config *config, int local_rank)
{
	struct train_world world;
	struct device *device;
	int err = device_create(&device, job->options.device, local_rank);
	if (!err && job->opened)
		job->opened(device, local_rank);
	if (!err)
		err = config ? world_open_as(&world, device->number, config)
			     : world_open(&world, device->number);
	if (!err)
		err = world_close(&world, run_world(job, &world, device));
	device_destroy(device);
	if (err && err != RONDO_REVOKED)
		snprintf(job->outcome->reason, sizeof(job->outcome->reason), "%s", failure());
	return err != 0;
}

int run_rank(void *argument)
{
	struct job *job = argument;
	int rank = getenv("RANK") ? atoi(getenv("RANK")) : 0;
	if (job->prepare)
		job->prepare(rank);
	if (job->hosts > 1)
		setenv("RONDO_HOST", rank % job->hosts ? "odd" : "even", 1);
	return run_rank_as(job, NULL, rank);
}

void run_plain(struct job *job)
{
	struct data *data, *test;
	struct device *cpu;
	struct model *model;
	struct sampler *sampler;
	static float images[GLOBAL_BATCH * 784];
	float *gradients;
	int32_t labels[GLOBAL_BATCH];
	double loss;
	int correct;
	cr_assert_eq(device_create(&cpu, DEVICE_CPU, 0), 0);
	struct data_source source = { .kind = &data_idx };
	snprintf(source.path, sizeof(source.path), "%s", scratch_path("drawn"));
	cr_assert_eq(data_open_both(&data, &test, &source), 0, "%s", failure());
	cr_assert_eq(sampler_create(&sampler, IMAGES, GLOBAL_BATCH, 0, 1), 0);
	model = small_model(cpu, (int[]){ 784, 512, 512, 10 }, 4, 50, 1);
	size_t elements = model->parameters.elements;
	cr_assert((gradients = calloc(elements, sizeof(*gradients))));
	small_place(model, gradients);
	for (int step = 0; step < STEPS; step++) {
		if (step % EPOCH_STEPS == 0)
			sampler_shuffle(sampler, 1, step / EPOCH_STEPS);
		int count = sampler_pick(sampler, step % EPOCH_STEPS);
		data_gather(data, sampler->picks, count, images, labels);
		small_forward(model, images, count);
		job->outcome->losses[step] = small_loss(model, labels, NULL) / count;
		small_backward(model, images, labels, 1.0f / count, small_ready, NULL);
		for (size_t i = 0; i < elements; i++)
			model->parameters.values[i] -= 0.5f * gradients[i];
	}
	/* There is room for 48. */
	for (uint32_t first = 0; first < TESTS; first += TESTS / 2) {
		uint32_t picks[TESTS / 2];
		for (uint32_t i = 0; i < TESTS / 2; i++)
			picks[i] = first + i;
		data_gather(test, picks, TESTS / 2, images, labels);
		small_forward(model, images, TESTS / 2);
		loss = small_loss(model, labels, &correct);
		job->outcome->test.loss += loss;
		job->outcome->test.correct += correct;
	}
	small_dense(model, model->parameters.values, job->outcome->parameters);
	free(gradients);
	model_destroy(model);
	device_destroy(cpu);
	sampler_destroy(sampler);
	data_destroy(data);
	data_destroy(test);
}

void run_ranks(struct job *job, int size)
{
	cr_assert_eq(
		rondo_spawn(size, run_rank, job), 0, "%d ranks: %s", size, job->outcome->reason);
	for (int rank = 1; rank < size; rank++)
		cr_assert_eq(job->outcome->hashes[rank], job->outcome->hashes[0]);
}

void expect_same_hash(struct job first, struct job second, int size)
{
	run_ranks(&first, size);
	run_ranks(&second, size);
	cr_assert_eq(first.outcome->hashes[0], second.outcome->hashes[0]);
}

double furthest_parameter(const struct job_outcome *a, const struct job_outcome *b)
{
	double most = 0;
	for (int i = 0; i < PARAMETERS; i++)
		most = fmax(most, fabs(a->parameters[i] - b->parameters[i]));
	return most;
}

double mean_distance(const struct job_outcome *a, const struct job_outcome *b)
{
	double sum = 0;
	for (int i = 0; i < PARAMETERS; i++)
		sum += fabs(a->parameters[i] - b->parameters[i]);
	return sum / PARAMETERS;
}

void expect_near_losses(const struct job_outcome *many, const struct job_outcome *one, int size)
{
	for (int step = 0; step < STEPS; step++)
		cr_assert_float_eq(many->losses[step], one->losses[step], MLP_LOSS_BOUND,
			"%d ranks, step %d: loss %.9f, alone %.9f", size, step, many->losses[step],
			one->losses[step]);
	cr_assert_eq(many->test.count, TESTS);
	cr_assert_float_eq(many->test.loss, one->test.loss, TESTS * MLP_LOSS_BOUND);
}

void expect_near(const struct job_outcome *many, const struct job_outcome *one, int size)
{
	double furthest = furthest_parameter(many, one);
	expect_near_losses(many, one, size);
	cr_assert_lt(furthest, MLP_PARAMETER_BOUND, "%d ranks: a parameter is off by %g", size,
		furthest);
	/* One of fifty guesses may have been even. */
	cr_assert_float_eq(many->test.correct, one->test.correct, 1);
}

void expect_failure(struct job *job, int size, const char *reason)
{
	cr_assert_gt(rondo_spawn(size, run_rank, job), 0);
	cr_assert(strstr(job->outcome->reason, reason), "'%s' is not in: %s", reason,
		job->outcome->reason);
}
