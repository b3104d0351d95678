#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <zlib.h>

#include "train/base/fail.h"
#include "train/rounding.h"
#include "train/scratch.h"

TestSuite(idx, .init = scratch_make, .fini = scratch_remove);

#define IMAGES "train-images-idx3-ubyte"
#define LABELS "train-labels-idx1-ubyte"

/* Two images of 2 x 3. */
static const unsigned char images[] = { 0, 0, 8, 3, 0, 0, 0, 2, 0, 0, 0, 2, 0, 0, 0, 3, 0, 51, 102,
	153, 204, 255, 1, 2, 3, 4, 5, 6 };
static const unsigned char labels[] = { 0, 0, 8, 1, 0, 0, 0, 2, 9, 0 };

/* Opens the training part, which must fail in one line with the file and this reason. */
static void expect_failure(const char *file, const char *reason)
{
	files_refuse(&data_idx, "", DATA_TRAIN, file, reason);
}

static void expect_set(void)
{
	struct data *data = files_open(&data_idx, "", DATA_TRAIN);
	float floats[12];
	int32_t picked[2];
	cr_assert_eq(data->count, 2);
	cr_assert_eq(data->channels, 1);
	cr_assert_eq(data->rows, 2);
	cr_assert_eq(data->columns, 3);
	cr_assert_eq(data->input_count, 6);
	cr_assert_eq(data->label_count, 1);
	cr_assert_eq(data->classes, 10);
	data_gather(data, (uint32_t[]){ 1, 0 }, 2, floats, picked);
	cr_assert_eq(picked[0], 0);
	cr_assert_eq(picked[1], 9);
	/* A pixel is multiplied by 1 / 255: both are rounded. */
	cr_assert_float_eq(floats[0], 1 / 255.0, ROUNDING(2, 1 / 255.0));
	cr_assert_eq(floats[6], 0.0f);
	cr_assert_float_eq(floats[7], 0.2, ROUNDING(2, 0.2));
	cr_assert_float_eq(floats[11], 1, ROUNDING(2, 1));
	data_destroy(data);
}

Test(idx, a_plain_file_is_read)
{
	scratch_write(IMAGES, images, sizeof(images));
	scratch_write(LABELS, labels, sizeof(labels));
	expect_set();
}

Test(idx, a_gzip_file_is_read)
{
	files_gzip(IMAGES ".gz", images, sizeof(images));
	files_gzip(LABELS ".gz", labels, sizeof(labels));
	expect_set();
}

Test(idx, a_missing_file_is_named)
{
	expect_failure(IMAGES, "neither");
	scratch_write(IMAGES, images, sizeof(images));
	expect_failure(LABELS, "neither");
}

Test(idx, a_file_cut_anywhere_is_refused)
{
	char reason[64];
	scratch_write(LABELS, labels, sizeof(labels));
	for (size_t size = 0; size < sizeof(images); size++) {
		scratch_write(IMAGES, images, size);
		snprintf(reason, sizeof(reason), "ends too early, at byte %zu", size);
		expect_failure(IMAGES, reason);
	}
}

#define GZIP_MAX 256

/* Writes the labels, and the images as a gzip file, whose bytes it returns. */
static size_t write_gzip_images(unsigned char bytes[GZIP_MAX])
{
	scratch_write(LABELS, labels, sizeof(labels));
	files_gzip(IMAGES ".gz", images, sizeof(images));
	return files_read(IMAGES ".gz", bytes, GZIP_MAX);
}

Test(idx, a_gzip_file_cut_anywhere_is_refused)
{
	unsigned char bytes[GZIP_MAX];
	size_t size = write_gzip_images(bytes);
	for (size_t cut = 0; cut < size; cut++) {
		scratch_write(IMAGES ".gz", bytes, cut);
		expect_failure(IMAGES, "ends too early");
	}
}

Test(idx, a_gzip_file_with_a_wrong_checksum_is_refused)
{
	unsigned char bytes[GZIP_MAX];
	size_t size = write_gzip_images(bytes);
	bytes[size - 8] ^= 1;
	scratch_write(IMAGES ".gz", bytes, size);
	/* The checksum and the length end the file. */
	expect_failure(IMAGES ".gz", "damaged, at byte ");
	size_t offset = strtoul(strstr(failure(), "at byte ") + 8, NULL, 10);
	cr_assert(offset >= size - 8 && offset <= size, "of %zu bytes: %s", size, failure());
}

Test(idx, a_file_longer_than_its_header_says_is_refused)
{
	unsigned char longer[sizeof(images) + 1] = { 0 };
	memcpy(longer, images, sizeof(images));
	scratch_write(IMAGES, longer, sizeof(longer));
	scratch_write(LABELS, labels, sizeof(labels));
	expect_failure(IMAGES, "longer than its header says, at byte 28");
}

Test(idx, another_type_or_number_of_dimensions_is_refused)
{
	unsigned char other[sizeof(images)];
	char reason[128];
	scratch_write(LABELS, labels, sizeof(labels));
	for (int byte = 0; byte < 4; byte++) {
		memcpy(other, images, sizeof(images));
		other[byte] ^= 1;
		scratch_write(IMAGES, other, sizeof(other));
		snprintf(reason, sizeof(reason),
			"not an IDX file of bytes in 3 dimensions: byte %d is %d", byte,
			other[byte]);
		expect_failure(IMAGES, reason);
	}
}

Test(idx, a_header_that_asks_for_the_world_is_refused_before_any_memory_is)
{
	static const unsigned char huge[][16] = {
		{ 0, 0, 8, 3, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff,
			0xff },
		{ 0, 0, 8, 3, 0x80, 0, 0, 0, 0x80, 0, 0, 0, 0, 0, 0, 4 },
		{ 0, 0, 8, 3, 0, 0, 0, 0, 0, 0, 0, 2, 0, 0, 0, 3 },
		{ 0, 0, 8, 3, 0, 0x10, 0, 0, 0, 0, 4, 0, 0, 0, 0, 2 },
	};
	static const char *const where[] = { "4294967295 at byte 4", "2147483648 at byte 4",
		"0 at byte 4", "2 at byte 12" };
	scratch_write(LABELS, labels, sizeof(labels));
	for (size_t i = 0; i < sizeof(huge) / sizeof(huge[0]); i++) {
		scratch_write(IMAGES, huge[i], sizeof(huge[i]));
		expect_failure(IMAGES, "impossible size");
		expect_failure(IMAGES, where[i]);
	}
}

Test(idx, another_number_of_labels_than_images_is_refused)
{
	scratch_write(IMAGES, images, sizeof(images));
	scratch_write(LABELS, (unsigned char[]){ 0, 0, 8, 1, 0, 0, 0, 1, 9 }, 9);
	expect_failure(LABELS, "has 1 labels at byte 4, for 2 images");
}

Test(idx, a_label_beyond_the_classes_is_refused)
{
	scratch_write(IMAGES, images, sizeof(images));
	scratch_write(LABELS, (unsigned char[]){ 0, 0, 8, 1, 0, 0, 0, 2, 9, 10 }, 10);
	expect_failure(LABELS, "label 10 of image 1, at byte 9, is not one of 10 classes");
}

Test(idx, a_fault_in_a_gzip_file_has_the_offset_of_the_unpacked_byte)
{
	scratch_write(IMAGES, images, sizeof(images));
	files_gzip(LABELS ".gz", (unsigned char[]){ 0, 0, 8, 1, 0, 0, 0, 2, 9, 10 }, 10);
	expect_failure(LABELS ".gz", "at byte 9 (unpacked)");
}

Test(idx, tests_of_another_shape_are_refused)
{
	struct data *train, *test;
	struct data_source source = files_source(&data_idx, "");
	unsigned char other[sizeof(images)];
	memcpy(other, images, sizeof(images));
	other[11] = 3;
	other[15] = 2;
	scratch_write(IMAGES, images, sizeof(images));
	scratch_write(LABELS, labels, sizeof(labels));
	scratch_write("t10k-images-idx3-ubyte", other, sizeof(other));
	scratch_write("t10k-labels-idx1-ubyte", labels, sizeof(labels));
	cr_assert_neq(data_open_both(&train, &test, &source), 0);
	cr_assert_null(train);
	cr_assert_null(test);
	cr_assert(strstr(failure(), "t10k-images-idx3-ubyte: has images of 3 x 2, at byte 8"));
}
