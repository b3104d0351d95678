#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "train/checkpoint/checkpoint.h"
#include "train/base/fail.h"
#include "train/scratch.h"
#include "train/small.h"

static struct device *cpu;

static void begin(void)
{
	scratch_make();
	cr_assert_eq(device_create(&cpu, DEVICE_CPU, 0), 0, "%s", failure());
}

static void end(void)
{
	device_destroy(cpu);
	scratch_remove();
}

TestSuite(checkpoint, .init = begin, .fini = end);

#define SIZE_MAX_HERE 4096

static struct model *make_model(uint64_t seed)
{
	return small_model(cpu, (int[]){ 9, 8, 7 }, 3, 1, seed);
}

static void save(const struct model *model, uint64_t epochs)
{
	struct checkpoint checkpoint = { .epochs = epochs,
		.seed = 7,
		.global_batch = 128,
		.learning_rate = 0.25,
		.bucket_mb = 2,
		.order = { 3, 2, 1, 0 } };
	cr_assert_eq(checkpoint_save(scratch_path("it"), &checkpoint, model), 0, "%s", failure());
}

static size_t read_file(unsigned char bytes[SIZE_MAX_HERE])
{
	FILE *file = fopen(scratch_path("it"), "rb");
	cr_assert(file);
	size_t size = fread(bytes, 1, SIZE_MAX_HERE, file);
	cr_assert_lt(size, SIZE_MAX_HERE);
	fclose(file);
	return size;
}

/* Loading fails in one line that names the file. */
static void expect_failure(void)
{
	struct checkpoint checkpoint;
	float *parameters;
	cr_assert_neq(checkpoint_load(scratch_path("it"), &checkpoint, &parameters), 0);
	cr_assert_null(parameters);
	cr_assert(strstr(failure(), scratch_path("it")), "%s", failure());
	cr_assert_null(strchr(failure(), '\n'));
}

Test(checkpoint, what_is_saved_is_loaded)
{
	struct model *model = make_model(1), *other = make_model(2);
	struct checkpoint checkpoint;
	float *parameters;
	save(model, 3);
	cr_assert_eq(scratch_count(), 1);
	cr_assert_eq(
		checkpoint_load(scratch_path("it"), &checkpoint, &parameters), 0, "%s", failure());
	cr_assert_eq(checkpoint.epochs, 3);
	cr_assert_eq(checkpoint.seed, 7);
	cr_assert_eq(checkpoint.global_batch, 128);
	cr_assert_eq(checkpoint.learning_rate, 0.25);
	cr_assert_arr_eq(checkpoint.order, ((int[]){ 3, 2, 1, 0 }), 4 * sizeof(int));
	cr_assert_eq(checkpoint_restore("it", &checkpoint, parameters, other), 0);
	cr_assert_arr_eq(other->parameters.values, model->parameters.values,
		model->parameters.elements * sizeof(float));
	free(parameters);
	model_destroy(model);
	model_destroy(other);
}

/* Saves a checkpoint, and returns the bytes of its file. */
static size_t save_and_read(unsigned char bytes[SIZE_MAX_HERE])
{
	struct model *model = make_model(1);
	save(model, 1);
	model_destroy(model);
	return read_file(bytes);
}

Test(checkpoint, a_file_cut_anywhere_is_refused)
{
	static unsigned char bytes[SIZE_MAX_HERE];
	size_t size = save_and_read(bytes);
	for (size_t cut = 0; cut < size; cut++) {
		scratch_write("it", bytes, cut);
		expect_failure();
	}
}

Test(checkpoint, a_file_with_any_byte_changed_is_refused)
{
	static unsigned char bytes[SIZE_MAX_HERE];
	size_t size = save_and_read(bytes);
	for (size_t at = 0; at < size; at++) {
		bytes[at] ^= 0x81;
		scratch_write("it", bytes, size);
		expect_failure();
		bytes[at] ^= 0x81;
	}
}

Test(checkpoint, a_file_with_more_behind_it_is_refused)
{
	static unsigned char bytes[SIZE_MAX_HERE];
	scratch_write("it", bytes, save_and_read(bytes) + 1);
	expect_failure();
}

Test(checkpoint, another_model_is_refused_and_keeps_its_parameters)
{
	struct model *model = make_model(1), *other;
	struct checkpoint checkpoint;
	float *parameters;
	other = small_model(cpu, (int[]){ 9, 9, 7 }, 3, 1, 2);
	float first = other->parameters.values[0];
	save(model, 1);
	cr_assert_eq(checkpoint_load(scratch_path("it"), &checkpoint, &parameters), 0);
	cr_assert_neq(checkpoint_restore("it", &checkpoint, parameters, other), 0);
	cr_assert_str_eq(failure(), "it: is of another model");
	cr_assert_eq(other->parameters.values[0], first);
	free(parameters);
	model_destroy(model);
	model_destroy(other);
}

Test(checkpoint, a_later_one_replaces_an_earlier_one)
{
	struct model *model = make_model(1);
	struct checkpoint checkpoint;
	float *parameters;
	save(model, 1);
	save(model, 2);
	cr_assert_eq(scratch_count(), 1);
	cr_assert_eq(checkpoint_load(scratch_path("it"), &checkpoint, &parameters), 0);
	cr_assert_eq(checkpoint.epochs, 2);
	free(parameters);
	model_destroy(model);
}

Test(checkpoint, one_that_cannot_be_written_leaves_the_one_before)
{
	struct model *model = make_model(1);
	struct checkpoint checkpoint = { .epochs = 2 };
	float *parameters;
	save(model, 1);
	/* A directory takes the draft's name. */
	cr_assert_eq(mkdir(scratch_path("it.draft"), 0755), 0);
	cr_assert_neq(checkpoint_save(scratch_path("it"), &checkpoint, model), 0);
	cr_assert_eq(checkpoint_load(scratch_path("it"), &checkpoint, &parameters), 0);
	cr_assert_eq(checkpoint.epochs, 1);
	free(parameters);
	cr_assert_neq(checkpoint_save(scratch_path("no/dir"), &checkpoint, model), 0);
	cr_assert(strstr(failure(), "no/dir"));
	model_destroy(model);
}

Test(checkpoint, a_path_that_cannot_be_written_fails_beforehand)
{
	struct model *model = make_model(1);
	save(model, 3);
	cr_assert_eq(checkpoint_writable(scratch_path("it")), 0, "%s", failure());
	struct checkpoint checkpoint;
	float *parameters;
	cr_assert_eq(checkpoint_load(scratch_path("it"), &checkpoint, &parameters), 0);
	cr_assert_eq(checkpoint.epochs, 3, "asking changed what was there");
	free(parameters);
	model_destroy(model);
	cr_assert_neq(checkpoint_writable(scratch_path("none/it")), 0);
	cr_assert(strstr(failure(), "cannot write: No such file or directory"), "%s", failure());
}
