/* Ranks with different numbers of batches. */
#include <criterion/criterion.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "train/base/fail.h"
#include "train/optim/optimizer.h"
#include "train/parallel/join.h"
#include "train/parallel/zero.h"
#include "train/small.h"

#define SIZE 4
#define STEPS 7 /* of the rank with most */
#define IN 12
#define OUT 3

static struct outcome {
	float values[1024]; /* of rank 0 */
	int steps[SIZE];
	char reason[256];
} * outcome; /* shared with the ranks */

static void share(void)
{
	outcome = mmap(
		NULL, sizeof(*outcome), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	cr_assert_neq(outcome, MAP_FAILED);
}

TestSuite(join, .init = share, .timeout = 60);

/* Rank r has batches in its first `batches[r]` steps, of r + 1 + step % 2 samples. */
static const int batches[SIZE] = { 3, 7, 0, 5 };

static int count_of(int rank, int step)
{
	return step < batches[rank] ? rank + 1 + step % 2 : 0;
}

static void fill(int rank, int step, float *inputs, int32_t *labels)
{
	for (int s = 0; s < count_of(rank, step); s++) {
		for (int i = 0; i < IN; i++)
			inputs[s * IN + i] = (float)((rank * 31 + step * 7 + s * 3 + i) % 11) / 11;
		labels[s] = (rank + step + s) % OUT;
	}
}

struct variant {
	bool zero;
};

static int train(const struct train_world *world, struct device *cpu, const struct variant *variant)
{
	const struct ddp_config config = { .bucket_size = 256, .zero = variant->zero };
	const struct optimizer_config sgd = { .kind = OPTIMIZER_SGD, .momentum = 0.9f };
	struct model *model = small_model(cpu, (int[]){ IN, 8, OUT }, 3, SIZE + 1, 1);
	struct ddp *ddp = NULL;
	struct join *join = NULL;
	struct optimizer *optimizer = NULL;
	float inputs[(SIZE + 1) * IN];
	int32_t labels[SIZE + 1];
	size_t samples = 0;
	int err = ddp_create(&ddp, world, cpu, &model->parameters, &config);
	if (!err)
		err = join_create(&join, ddp);
	if (!err)
		err = optimizer_create(&optimizer, cpu, &sgd,
			variant->zero ? zero_elements(ddp) : model->parameters.elements);
	for (int step = 0; !err && (step == 0 || samples); step++) {
		int count = count_of(world->rank, step);
		fill(world->rank, step, inputs, labels);
		err = join_begin(join, count);
		if (!err && count) {
			model_forward(model, model->passes, inputs, count, true);
			model_loss_grad(model, model->passes, labels, 1);
			err = model_backward(model, model->passes, inputs, NULL, ddp_ready, ddp);
		}
		if (!err)
			err = join_wait(join, &samples);
		if (err || !samples)
			break;
		outcome->steps[world->rank]++;
		if (variant->zero)
			err = zero_step(ddp, optimizer, 0.1f);
		else
			optimizer_step(optimizer, &model->parameters, 0.1f);
	}
	if (!world->rank)
		memcpy(outcome->values, model->parameters.values,
			model->parameters.elements * sizeof(float));
	join_destroy(join);
	optimizer_destroy(optimizer);
	ddp_destroy(ddp);
	model_destroy(model);
	return err;
}

static int run_rank(void *variant)
{
	struct train_world world;
	struct device *cpu;
	int err = device_create(&cpu, DEVICE_CPU, 0);
	if (!err)
		err = world_open(&world, -1);
	if (!err)
		err = world_close(&world, train(&world, cpu, variant));
	device_destroy(cpu);
	if (err && err != RONDO_REVOKED)
		snprintf(outcome->reason, sizeof(outcome->reason), "%s", failure());
	return err != 0;
}

/* One rank with the samples of all. */
static void train_alone(float *values)
{
	const struct optimizer_config sgd = { .kind = OPTIMIZER_SGD, .momentum = 0.9f };
	struct device *cpu;
	struct optimizer *optimizer;
	float inputs[SIZE * (SIZE + 1) * IN], *gradients;
	int32_t labels[SIZE * (SIZE + 1)];
	cr_assert_eq(device_create(&cpu, DEVICE_CPU, 0), 0);
	struct model *model = small_model(cpu, (int[]){ IN, 8, OUT }, 3, SIZE * (SIZE + 1), 1);
	size_t elements = model->parameters.elements;
	cr_assert((gradients = calloc(elements, sizeof(*gradients))));
	small_place(model, gradients);
	cr_assert_eq(optimizer_create(&optimizer, cpu, &sgd, elements), 0);
	for (int step = 0; step < STEPS; step++) {
		int count = 0;
		for (int rank = 0; rank < SIZE; rank++) {
			fill(rank, step, inputs + count * IN, labels + count);
			count += count_of(rank, step);
		}
		small_forward(model, inputs, count);
		cr_assert_eq(
			small_backward(model, inputs, labels, 1.0f / count, small_ready, NULL), 0);
		optimizer_step(optimizer, &model->parameters, 0.1f);
	}
	memcpy(values, model->parameters.values, elements * sizeof(*values));
	optimizer_destroy(optimizer);
	model_destroy(model);
	free(gradients);
	device_destroy(cpu);
}

static void expect_like_one(struct variant variant)
{
	static float alone[1024];
	memset(outcome, 0, sizeof(*outcome));
	train_alone(alone);
	cr_assert_eq(rondo_spawn(SIZE, run_rank, &variant), 0, "%s", outcome->reason);
	for (int rank = 0; rank < SIZE; rank++)
		cr_assert_eq(
			outcome->steps[rank], STEPS, "rank %d: %d", rank, outcome->steps[rank]);
	for (int i = 0; i < 1024; i++)
		cr_assert_lt(fabsf(outcome->values[i] - alone[i]), 1e-6f, "%d: %g, alone %g", i,
			outcome->values[i], alone[i]);
}

Test(join, ranks_without_batches_take_part_until_all_have_none)
{
	expect_like_one((struct variant){ 0 });
}

Test(join, so_they_do_with_a_sharded_optimizer)
{
	expect_like_one((struct variant){ .zero = true });
}

Test(join, a_rank_alone_ends_after_its_batches)
{
	const struct train_world alone = { .size = 1 };
	struct device *cpu;
	cr_assert_eq(device_create(&cpu, DEVICE_CPU, 0), 0);
	cr_assert_eq(train(&alone, cpu, &(struct variant){ 0 }), 0);
	cr_assert_eq(outcome->steps[0], batches[0]);
	device_destroy(cpu);
}
