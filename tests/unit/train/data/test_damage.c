/* Files with random damage: they open or are refused in a line, and nothing else happens. */
#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "train/base/fail.h"
#include "train/base/rng.h"
#include "train/data/draw.h"
#include "train/scratch.h"

TestSuite(damage, .init = scratch_make, .fini = scratch_remove, .timeout = 120);

#define ROUNDS 120
#define FILE_MAX (1 << 16)

/* Flips some bits, writes some bytes of extreme values, or cuts or extends the file. */
static size_t damage(uint8_t *bytes, size_t size, struct rng *rng)
{
	static const uint8_t extremes[] = { 0, 1, 0x7f, 0x80, 0xff };
	int count = 1 + (int)rng_below(rng, 4);
	switch (rng_below(rng, 4)) {
	case 0:
		return rng_below(rng, size + 1);
	case 1:
		memset(bytes + size, 0x5a, 16);
		return size + 1 + rng_below(rng, 16);
	case 2:
		/* Most likely in a header. */
		for (; count; count--)
			bytes[rng_below(rng, size < 20 ? size : 20)] =
				extremes[rng_below(rng, sizeof(extremes))];
		return size;
	default:
		for (; count; count--)
			bytes[rng_below(rng, size)] ^= 1 << rng_below(rng, 8);
		return size;
	}
}

/* Whether the values of a sample lie in their range. */
static bool in_range(const struct data *data, const float *inputs, const int32_t *labels)
{
	const int32_t *tokens = (const int32_t *)inputs;
	bool right = true;
	for (size_t l = 0; l < data->label_count; l++)
		right = right && labels[l] >= 0 && labels[l] < data->classes;
	for (size_t i = 0; i < data->input_count; i++)
		right = right && (data->channels ? inputs[i] >= -1.0f && inputs[i] <= 1.0f
						 : tokens[i] >= 0 && tokens[i] < data->classes);
	return right;
}

static void read_all(const struct data *data)
{
	float *inputs = malloc(data->input_count * sizeof(float));
	int32_t *labels = malloc(data->label_count * sizeof(int32_t));
	cr_assert_geq(data->count, 1);
	for (uint32_t i = 0; i < data->count; i++) {
		data_gather(data, &i, 1, inputs, labels);
		cr_assert(in_range(data, inputs, labels));
	}
	free(inputs);
	free(labels);
}

/* Damages this file of a set whose other files are whole, again and again. At least this many
   rounds must be refused. */
static void expect_calm(const struct data_kind *kind, const char *path, const char *name, int low)
{
	static uint8_t whole[FILE_MAX], bytes[FILE_MAX + 64];
	static uint64_t seed;
	struct data_source source = files_source(kind, path);
	struct rng rng = rng_make(11, seed++);
	size_t size = files_read(name, whole, FILE_MAX);
	int refused = 0;
	for (int round = 0; round < ROUNDS; round++) {
		struct data *train, *test;
		memcpy(bytes, whole, size);
		scratch_write(name, bytes, damage(bytes, size, &rng));
		if (data_open_both(&train, &test, &source)) {
			refused++;
			cr_assert(strstr(failure(), scratch_path("")), "%s", failure());
			cr_assert_null(strchr(failure(), '\n'));
			cr_assert_null(train);
			cr_assert_null(test);
			continue;
		}
		read_all(train);
		read_all(test);
		data_destroy(train);
		data_destroy(test);
	}
	scratch_write(name, whole, size);
	cr_assert(refused >= low, "%s: %d of %d refused", name, refused, ROUNDS);
}

/* Replaces a file by its compressed form, NAME.gz. */
static void compress_file(const char *name, char packed[64])
{
	static uint8_t bytes[FILE_MAX];
	size_t size = files_read(name, bytes, FILE_MAX);
	snprintf(packed, 64, "%s.gz", name);
	files_gzip(packed, bytes, size);
	unlink(scratch_path(name));
}

/* All files of a set in the scratch directory, plain and then compressed. */
static void expect_calm_set(const struct data_kind *kind)
{
	char packed[64];
	for (int i = 0; kind->files[i]; i++)
		expect_calm(kind, "", kind->files[i], ROUNDS / 4);
	for (int i = 0; kind->files[i]; i++) {
		compress_file(kind->files[i], packed);
		expect_calm(kind, "", packed, ROUNDS / 2);
	}
}

Test(damage, idx_files)
{
	cr_assert_eq(draw_digits_set(scratch_path(""), 5, 3, 1), 0);
	expect_calm_set(&data_idx);
}

Test(damage, cifar_files)
{
	cr_assert_eq(draw_coloured_set(scratch_path(""), 10, 2, 1), 0);
	expect_calm_set(&data_cifar);
}

Test(damage, text_files)
{
	char packed[64];
	cr_assert_eq(draw_text_set(scratch_path(""), 900, 100, 1), 0);
	/* Any bytes are a text: only a short one is refused. */
	expect_calm(&data_text, "text.txt", "text.txt", 1);
	compress_file("text.txt", packed);
	expect_calm(&data_text, packed, packed, ROUNDS / 2);
}
