#include <cblas.h>
#include <criterion/criterion.h>
#include <string.h>
#include <sys/stat.h>

#include "train/data/draw.h"
#include "train/base/fail.h"
#include "train/model/model.h"
#include "train/optim/optimizer.h"
#include "train/scratch.h"
#include "train/small.h"
#include "train/world/world.h"
#include "train/parallel/ddp.h"
#include "train/data/sampler.h"

TestSuite(draw, .init = scratch_make, .fini = scratch_remove);

#define PIXELS (DRAW_SIZE * DRAW_SIZE)

Test(draw, an_image_follows_from_seed_and_number_alone)
{
	struct data *all, *some, *other;
	cr_assert_eq(draw_digits(&all, 50, 4, 0), 0);
	cr_assert_eq(draw_digits(&some, 10, 4, 40), 0);
	cr_assert_eq(draw_digits(&other, 10, 5, 40), 0);
	cr_assert_arr_eq(all->images + 40 * PIXELS, some->images, 10 * PIXELS);
	cr_assert_arr_eq(all->labels + 40, some->labels, 10);
	cr_assert_arr_neq(other->images, some->images, 10 * PIXELS);
	data_destroy(all);
	data_destroy(some);
	data_destroy(other);
}

Test(draw, classes_come_equally_often)
{
	struct data *data;
	int times[DATA_CLASSES] = { 0 };
	cr_assert_eq(draw_digits(&data, 3000, 1, 0), 0);
	for (int i = 0; i < 3000; i++)
		times[data->labels[i]]++;
	/* 300 each, give or take six deviations. */
	for (int c = 0; c < DATA_CLASSES; c++)
		cr_assert(times[c] > 200 && times[c] < 400, "class %d: %d times", c, times[c]);
	data_destroy(data);
}

Test(draw, no_two_images_are_alike)
{
	struct data *data;
	cr_assert_eq(draw_digits(&data, 200, 1, 0), 0);
	for (int i = 0; i < 200; i++)
		for (int j = 0; j < i; j++)
			cr_assert_arr_neq(
				data->images + i * PIXELS, data->images + j * PIXELS, PIXELS);
	data_destroy(data);
}

static double accuracy(struct model *model, const struct data *data)
{
	static float images[100 * PIXELS];
	static int32_t labels[100];
	uint32_t picks[100];
	int correct, sum = 0;
	for (size_t first = 0; first < data->count; first += 100) {
		for (int i = 0; i < 100; i++)
			picks[i] = first + i;
		data_gather(data, picks, 100, images, labels);
		small_forward(model, images, 100);
		small_loss(model, labels, &correct);
		sum += correct;
	}
	return (double)sum / data->count;
}

static void train_epoch_of(struct model *model, struct ddp *ddp, struct optimizer *optimizer,
	struct sampler *sampler, const struct data *data)
{
	static float images[32 * PIXELS];
	static int32_t labels[32];
	for (size_t step = 0; step < sampler_steps(sampler); step++) {
		int count = sampler_pick(sampler, step);
		data_gather(data, sampler->picks, count, images, labels);
		small_forward(model, images, count);
		cr_assert_eq(ddp_begin(ddp), 0);
		cr_assert_eq(
			small_backward(model, images, labels, 1.0f / count, ddp_ready, ddp), 0);
		cr_assert_eq(ddp_wait(ddp), 0);
		optimizer_step(optimizer, &model->parameters, 0.1f);
	}
}

Test(draw, an_untrained_model_guesses_and_a_trained_one_knows_most, .timeout = 120)
{
	struct data *train, *test;
	struct device *cpu;
	struct model *model;
	struct sampler *sampler;
	struct ddp *ddp;
	struct optimizer *optimizer;
	const struct optimizer_config sgd = { 0 };
	struct train_world alone = { .size = 1 };
	openblas_set_num_threads(1);
	cr_assert_eq(draw_digits(&train, 6000, 1, 0), 0);
	cr_assert_eq(draw_digits(&test, 1000, 1, 6000), 0);
	cr_assert_eq(device_create(&cpu, DEVICE_CPU, 0), 0);
	model = small_model(cpu, (int[]){ PIXELS, 128, DATA_CLASSES }, 3, 100, 1);
	cr_assert_eq(ddp_create(&ddp, &alone, cpu, model->parameters.list, model->parameters.count,
			     1 << 20, NULL),
		0);
	cr_assert_eq(optimizer_create(&optimizer, cpu, &sgd, model->parameters.elements), 0);
	cr_assert_eq(sampler_create(&sampler, train->count, 32, 0, 1), 0);
	cr_assert_lt(accuracy(model, test), 0.25);
	for (int epoch = 0; epoch < 8; epoch++) {
		sampler_shuffle(sampler, 1, epoch);
		train_epoch_of(model, ddp, optimizer, sampler, train);
	}
	double known = accuracy(model, test);
	/* A tenth of the set, and a smaller model: the whole reaches well over 0.9. */
	cr_assert(known > 0.7 && known < 1.0, "accuracy is %g", known);
	ddp_destroy(ddp);
	optimizer_destroy(optimizer);
	sampler_destroy(sampler);
	model_destroy(model);
	device_destroy(cpu);
	data_destroy(train);
	data_destroy(test);
}

Test(draw, a_set_is_four_files_and_nothing_else)
{
	struct data *train, *test, *expected;
	cr_assert_eq(draw_set(scratch_path("drawn"), 30, 20, 9), 0, "%s", failure());
	cr_assert_eq(scratch_count(), 5);
	cr_assert_eq(data_read(&train, scratch_path("drawn"), "train"), 0, "%s", failure());
	cr_assert_eq(data_read(&test, scratch_path("drawn"), "t10k"), 0, "%s", failure());
	cr_assert_eq(draw_digits(&expected, 50, 9, 0), 0);
	cr_assert_eq(train->count, 30);
	cr_assert_eq(test->count, 20);
	cr_assert_arr_eq(train->images, expected->images, 30 * PIXELS);
	cr_assert_arr_eq(test->images, expected->images + 30 * PIXELS, 20 * PIXELS);
	data_destroy(train);
	data_destroy(test);
	data_destroy(expected);
}

Test(draw, a_set_that_is_there_already_stays)
{
	struct data *train;
	cr_assert_eq(draw_set(scratch_path("drawn"), 30, 20, 9), 0);
	cr_assert_eq(draw_set(scratch_path("drawn"), 10, 10, 1), 0, "%s", failure());
	cr_assert_eq(scratch_count(), 5);
	cr_assert_eq(data_read(&train, scratch_path("drawn"), "train"), 0);
	cr_assert_eq(train->count, 30);
	data_destroy(train);
}

Test(draw, half_a_set_is_reported_and_left_alone)
{
	cr_assert_eq(mkdir(scratch_path("drawn"), 0755), 0);
	scratch_write("drawn/train-images-idx3-ubyte", "mine", 4);
	cr_assert_neq(draw_set(scratch_path("drawn"), 10, 10, 1), 0);
	cr_assert(strstr(failure(), "drawn"));
	cr_assert_eq(scratch_count(), 2);
}

Test(draw, a_place_that_cannot_be_written_is_reported)
{
	cr_assert_neq(draw_set(scratch_path("no/such/dir"), 10, 10, 1), 0);
	cr_assert(strstr(failure(), "no/such/dir"), "%s", failure());
}
