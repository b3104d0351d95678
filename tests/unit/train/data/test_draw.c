#include <cblas.h>
#include <criterion/criterion.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "train/base/fail.h"
#include "train/base/hash.h"
#include "train/data/draw.h"
#include "train/data/sampler.h"
#include "train/data/sets.h"
#include "train/model/model.h"
#include "train/optim/optimizer.h"
#include "train/parallel/ddp.h"
#include "train/scratch.h"
#include "train/small.h"
#include "train/world/world.h"

TestSuite(draw, .init = scratch_make, .fini = scratch_remove);

#define PIXELS (DRAW_SIZE * DRAW_SIZE)
#define SAMPLES 1000
#define SAMPLE_MAX CIFAR_RECORD
#define TEXT_SIZE 100000

/* A drawn image with its class before it, as a record of CIFAR-10. */
static void draw_record(bool coloured, uint8_t *record, uint64_t seed, uint64_t number)
{
	memset(record, 0, SAMPLE_MAX);
	if (coloured)
		draw_coloured_digit(record, seed, number);
	else
		record[0] = draw_digit(record + 1, seed, number);
}

static uint64_t hash_records(bool coloured, uint64_t seed)
{
	uint8_t record[SAMPLE_MAX];
	uint64_t hash = HASH_START;
	for (int i = 0; i < SAMPLES; i++) {
		draw_record(coloured, record, seed, i);
		hash = hash_bytes(hash, record, sizeof(record));
	}
	return hash;
}

Test(draw, samples_are_the_same_on_every_machine)
{
	static char text[TEXT_SIZE];
	draw_text(text, TEXT_SIZE, 1);
	/* Recorded on x86-64. */
	cr_assert_eq(
		hash_records(false, 1), 0x9cccc53542d06b3c, "digits: %lx", hash_records(false, 1));
	cr_assert_eq(
		hash_records(true, 1), 0xe197821a67b39d, "in colours: %lx", hash_records(true, 1));
	cr_assert_eq(hash_bytes(HASH_START, text, TEXT_SIZE), 0x858834a026e7d365, "text: %lx",
		hash_bytes(HASH_START, text, TEXT_SIZE));
}

Test(draw, an_image_follows_from_seed_and_number_alone)
{
	uint8_t one[SAMPLE_MAX], again[SAMPLE_MAX];
	for (int coloured = 0; coloured < 2; coloured++) {
		draw_record(coloured, one, 4, 40);
		draw_record(coloured, again, 4, 41);
		cr_assert_arr_neq(one, again, SAMPLE_MAX);
		draw_record(coloured, again, 5, 40);
		cr_assert_arr_neq(one, again, SAMPLE_MAX);
		draw_record(coloured, again, 4, 40);
		cr_assert_arr_eq(one, again, SAMPLE_MAX);
	}
}

Test(draw, classes_come_equally_often)
{
	uint8_t record[SAMPLE_MAX];
	for (int coloured = 0; coloured < 2; coloured++) {
		int times[DATA_CLASSES] = { 0 };
		for (int i = 0; i < 3000; i++) {
			draw_record(coloured, record, 1, i);
			cr_assert_lt(record[0], DATA_CLASSES);
			times[record[0]]++;
		}
		/* 300 each, give or take six deviations. */
		for (int c = 0; c < DATA_CLASSES; c++)
			cr_assert(times[c] > 200 && times[c] < 400, "class %d: %d times", c,
				times[c]);
	}
}

Test(draw, no_two_images_are_alike)
{
	static uint8_t records[200][SAMPLE_MAX];
	for (int coloured = 0; coloured < 2; coloured++) {
		for (int i = 0; i < 200; i++) {
			draw_record(coloured, records[i], 1, i);
			for (int j = 0; j < i; j++)
				cr_assert_arr_neq(records[i] + 1, records[j] + 1, SAMPLE_MAX - 1);
		}
	}
}

/* The entropy of a byte after the `order` bytes before it, in bits. */
static double entropy(const char *text, size_t size, int order)
{
	/* Counts by a hash of the context: contexts that share one only raise the entropy. */
	static uint32_t counts[1 << 16][128];
	double bits = 0;
	memset(counts, 0, sizeof(counts));
	for (int pass = 0; pass < 2; pass++) {
		for (size_t i = order; i < size; i++) {
			uint32_t *count =
				counts[hash_bytes(HASH_START, text + i - order, order) & 0xffff];
			double sum = 0;
			for (int c = 0; pass && c < 128; c++)
				sum += count[c];
			if (pass)
				bits -= log2(count[(int)text[i]] / sum);
			else
				count[(int)text[i]]++;
		}
	}
	return bits / (double)(size - order);
}

Test(draw, text_has_structure_that_a_model_can_learn)
{
	static char text[TEXT_SIZE];
	draw_text(text, TEXT_SIZE, 7);
	for (int i = 0; i < TEXT_SIZE; i++)
		cr_assert((text[i] >= ' ' && text[i] < 127) || text[i] == '\n');
	double none = entropy(text, TEXT_SIZE, 0), two = entropy(text, TEXT_SIZE, 2),
	       five = entropy(text, TEXT_SIZE, 5);
	cr_assert(none > 4.0 && none < 5.0, "without context: %g bits", none);
	cr_assert(two > 1.0 && two < 2.2, "after two bytes: %g bits", two);
	cr_assert(five > 0.2 && five < two - 0.5, "after five bytes: %g bits", five);
}

Test(draw, text_is_cut_at_its_size)
{
	char whole[300], part[300];
	draw_text(whole, sizeof(whole), 3);
	for (size_t size = 1; size < sizeof(whole); size++) {
		memset(part, '#', sizeof(part));
		draw_text(part, size, 3);
		cr_assert_arr_eq(part, whole, size);
		cr_assert_eq(part[size], '#');
	}
}

/* ---- Learning ---- */

#define BATCH 100

static float inputs[BATCH * CIFAR_PIXELS];
static int32_t labels[BATCH];

static double accuracy(struct model *model, const struct data *data)
{
	uint32_t picks[BATCH];
	int correct, sum = 0;
	for (size_t first = 0; first < data->count; first += BATCH) {
		for (int i = 0; i < BATCH; i++)
			picks[i] = first + i;
		data_gather(data, picks, BATCH, inputs, labels);
		small_forward(model, inputs, BATCH);
		small_loss(model, labels, &correct);
		sum += correct;
	}
	return (double)sum / data->count;
}

static void train_epoch_of(struct model *model, struct ddp *ddp, struct optimizer *optimizer,
	struct sampler *sampler, const struct data *data)
{
	for (size_t step = 0; step < sampler_steps(sampler); step++) {
		int count = sampler_pick(sampler, step);
		data_gather(data, sampler->picks, count, inputs, labels);
		small_forward(model, inputs, count);
		cr_assert_eq(ddp_begin(ddp, 0, 1), 0);
		cr_assert_eq(
			small_backward(model, inputs, labels, 1.0f / count, ddp_ready, ddp), 0);
		cr_assert_eq(ddp_wait(ddp), 0);
		optimizer_step(optimizer, &model->parameters, 0.1f);
	}
}

/* An untrained model guesses; the accuracy of a trained one lies between these. */
static void expect_learning(const char *name, double low, double high)
{
	const struct set *set = set_named(name);
	struct data_source source = files_source(set->kind, name);
	struct data *train, *test;
	struct device *cpu;
	struct sampler *sampler;
	struct ddp *ddp;
	struct optimizer *optimizer;
	const struct optimizer_config sgd = { 0 };
	struct train_world alone = { .size = 1 };
	openblas_set_num_threads(1);
	cr_assert_eq(set_draw(set, scratch_path(""), 6000, 1000), 0, "%s", failure());
	cr_assert_eq(data_open_both(&train, &test, &source), 0, "%s", failure());
	cr_assert_eq(device_create(&cpu, DEVICE_CPU, 0), 0);
	struct model *model =
		small_model(cpu, (int[]){ train->input_count, 128, DATA_CLASSES }, 3, BATCH, 1);
	cr_assert_eq(ddp_create(&ddp, &alone, cpu, &model->parameters,
			     &(struct ddp_config){ .bucket_size = 1 << 20 }),
		0);
	cr_assert_eq(optimizer_create(&optimizer, cpu, &sgd, model->parameters.elements), 0);
	cr_assert_eq(sampler_create(&sampler, train->count, 32, 0, 1), 0);
	cr_assert_lt(accuracy(model, test), 0.25);
	for (int epoch = 0; epoch < 8; epoch++) {
		sampler_shuffle(sampler, 1, epoch);
		train_epoch_of(model, ddp, optimizer, sampler, train);
	}
	double known = accuracy(model, test);
	cr_assert(known > low && known < high, "accuracy is %g", known);
	ddp_destroy(ddp);
	optimizer_destroy(optimizer);
	sampler_destroy(sampler);
	model_destroy(model);
	device_destroy(cpu);
	data_destroy(train);
	data_destroy(test);
}

Test(draw, a_trained_model_knows_most_digits, .timeout = 120)
{
	/* A tenth of the set, and a smaller model: the whole reaches well over 0.9. */
	expect_learning("drawn", 0.7, 1.0);
}

Test(draw, a_trained_model_knows_most_digits_in_colours, .timeout = 240)
{
	expect_learning("drawn-cifar", 0.3, 0.9);
}

/* ---- Sets ---- */

/* Draws a set twice, the second time with other counts: the first one stays. */
static void expect_set(const char *name, int files, size_t train_count, size_t test_count)
{
	const struct set *set = set_named(name);
	struct data_source source = files_source(set->kind, name);
	struct data *train, *test;
	cr_assert_eq(set_draw(set, scratch_path(""), 90, 10), 0, "%s", failure());
	cr_assert_eq(scratch_count(), 1 + files);
	cr_assert_eq(set_draw(set, scratch_path(""), 900, 100), 0, "%s", failure());
	cr_assert_eq(scratch_count(), 1 + files);
	cr_assert_eq(data_open_both(&train, &test, &source), 0, "%s", failure());
	cr_assert_eq(train->count, train_count);
	cr_assert_eq(test->count, test_count);
	data_destroy(train);
	data_destroy(test);
}

Test(draw, a_set_is_its_files_and_nothing_else_and_stays)
{
	expect_set("drawn", 4, 90, 10);
	scratch_remove();
	scratch_make();
	expect_set("drawn-cifar", 6, 90, 10);
	scratch_remove();
	scratch_make();
	/* Windows of 8 bytes and one more. */
	expect_set("drawn-text", 1, 11, 1);
}

Test(draw, the_samples_of_a_set_are_those_drawn_one_by_one)
{
	struct data_source source = files_source(&data_cifar, "drawn-cifar");
	struct data *train, *test;
	uint8_t record[CIFAR_RECORD];
	cr_assert_eq(set_draw(set_named("drawn-cifar"), scratch_path(""), 23, 4), 0);
	cr_assert_eq(data_open_both(&train, &test, &source), 0, "%s", failure());
	for (uint32_t i = 0; i < 27; i++) {
		draw_coloured_digit(record, 28, i);
		data_gather(i < 23 ? train : test, (uint32_t[]){ i < 23 ? i : i - 23 }, 1, inputs,
			labels);
		cr_assert_eq(labels[0], record[0]);
		for (int p = 0; p < CIFAR_PIXELS; p++)
			cr_assert_eq(lrintf((inputs[p] * 0.5f + 0.5f) * 255.0f), record[1 + p]);
	}
	data_destroy(train);
	data_destroy(test);
}

Test(draw, half_a_set_is_reported_and_left_alone)
{
	cr_assert_eq(mkdir(scratch_path("drawn"), 0755), 0);
	scratch_write("drawn/train-images-idx3-ubyte", "mine", 4);
	cr_assert_neq(set_draw(set_named("drawn"), scratch_path(""), 10, 10), 0);
	cr_assert(strstr(failure(), "drawn: cannot put the set there"), "%s", failure());
	cr_assert_eq(scratch_count(), 2);
}

Test(draw, a_place_that_cannot_be_written_is_reported)
{
	cr_assert_neq(set_draw(set_named("drawn"), scratch_path("no/such/dir"), 10, 10), 0);
	cr_assert(strstr(failure(), "no/such/dir"), "%s", failure());
}
