#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <zlib.h>

#include "train/data/data.h"
#include "train/base/fail.h"
#include "train/scratch.h"

TestSuite(data, .init = scratch_make, .fini = scratch_remove);

#define IMAGES "train-images-idx3-ubyte"
#define LABELS "train-labels-idx1-ubyte"

/* Two images of 2 x 3. */
static const unsigned char images[] = { 0, 0, 8, 3, 0, 0, 0, 2, 0, 0, 0, 2, 0, 0, 0, 3, 0, 51, 102,
	153, 204, 255, 1, 2, 3, 4, 5, 6 };
static const unsigned char labels[] = { 0, 0, 8, 1, 0, 0, 0, 2, 9, 0 };

static void write_gzip(const char *name, const void *bytes, unsigned size)
{
	gzFile file = gzopen(scratch_path(name), "wb");
	cr_assert(file);
	cr_assert_eq(gzwrite(file, bytes, size), (int)size);
	cr_assert_eq(gzclose(file), Z_OK);
}

static void expect_set(void)
{
	struct data *data;
	cr_assert_eq(data_read(&data, scratch_path(""), "train"), 0, "%s", failure());
	cr_assert_eq(data->count, 2);
	cr_assert_eq(data->rows, 2);
	cr_assert_eq(data->columns, 3);
	cr_assert_arr_eq(data->images, images + 16, 12);
	cr_assert_arr_eq(data->labels, labels + 8, 2);
	data_destroy(data);
}

/* Reading fails, in one line with the file and this reason. */
static void expect_failure(const char *file, const char *reason)
{
	struct data *data;
	cr_assert_neq(data_read(&data, scratch_path(""), "train"), 0, "no failure: %s", reason);
	cr_assert_null(data);
	cr_assert(strstr(failure(), file), "%s is not in: %s", file, failure());
	cr_assert(strstr(failure(), reason), "'%s' is not in: %s", reason, failure());
	cr_assert_null(strchr(failure(), '\n'));
}

Test(data, a_plain_file_is_read)
{
	scratch_write(IMAGES, images, sizeof(images));
	scratch_write(LABELS, labels, sizeof(labels));
	expect_set();
}

Test(data, a_gzip_file_is_read)
{
	write_gzip(IMAGES ".gz", images, sizeof(images));
	write_gzip(LABELS ".gz", labels, sizeof(labels));
	expect_set();
}

Test(data, what_is_written_is_read_back)
{
	struct data *data, *back;
	cr_assert_eq(data_create(&data, 300, 5, 7), 0);
	for (size_t i = 0; i < 300 * 35; i++)
		data->images[i] = i * 7;
	for (size_t i = 0; i < 300; i++)
		data->labels[i] = i % 10;
	cr_assert_eq(data_write(data, scratch_path(""), "t10k"), 0);
	cr_assert_eq(data_read(&back, scratch_path(""), "t10k"), 0, "%s", failure());
	cr_assert_eq(back->count, 300);
	cr_assert_arr_eq(back->images, data->images, 300 * 35);
	cr_assert_arr_eq(back->labels, data->labels, 300);
	data_destroy(data);
	data_destroy(back);
}

Test(data, a_set_is_present_when_all_four_files_are)
{
	for (int i = 0; i < 4; i++) {
		cr_assert_not(data_present(scratch_path("")));
		scratch_write(data_files[i], "", 0);
	}
	cr_assert(data_present(scratch_path("")));
	unlink(scratch_path(data_files[2]));
	cr_assert_not(data_present(scratch_path("")));
}

Test(data, images_are_gathered_as_floats_from_0_to_1)
{
	float floats[12];
	int32_t picked[2];
	struct data *data;
	scratch_write(IMAGES, images, sizeof(images));
	scratch_write(LABELS, labels, sizeof(labels));
	cr_assert_eq(data_read(&data, scratch_path(""), "train"), 0);
	data_gather(data, (uint32_t[]){ 1, 0 }, 2, floats, picked);
	cr_assert_eq(picked[0], 0);
	cr_assert_eq(picked[1], 9);
	cr_assert_float_eq(floats[0], 1 / 255.0f, 1e-7);
	cr_assert_eq(floats[6], 0.0f);
	cr_assert_float_eq(floats[7], 0.2f, 1e-7);
	cr_assert_float_eq(floats[11], 1.0f, 1e-7);
	data_destroy(data);
}

Test(data, a_missing_file_is_named)
{
	expect_failure(IMAGES, "neither");
	scratch_write(IMAGES, images, sizeof(images));
	expect_failure(LABELS, "neither");
}

Test(data, a_file_cut_anywhere_is_refused)
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
	write_gzip(IMAGES ".gz", images, sizeof(images));
	FILE *file = fopen(scratch_path(IMAGES ".gz"), "rb");
	size_t size = fread(bytes, 1, GZIP_MAX, file);
	fclose(file);
	return size;
}

Test(data, a_gzip_file_cut_anywhere_is_refused)
{
	unsigned char bytes[GZIP_MAX];
	size_t size = write_gzip_images(bytes);
	for (size_t cut = 0; cut < size; cut++) {
		scratch_write(IMAGES ".gz", bytes, cut);
		expect_failure(IMAGES, "ends too early");
	}
}

Test(data, a_gzip_file_with_a_wrong_checksum_is_refused)
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

Test(data, a_file_longer_than_its_header_says_is_refused)
{
	unsigned char longer[sizeof(images) + 1] = { 0 };
	memcpy(longer, images, sizeof(images));
	scratch_write(IMAGES, longer, sizeof(longer));
	scratch_write(LABELS, labels, sizeof(labels));
	expect_failure(IMAGES, "longer than its header says, at byte 28");
}

Test(data, another_type_or_number_of_dimensions_is_refused)
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

Test(data, a_header_that_asks_for_the_world_is_refused_before_any_memory_is)
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

Test(data, another_number_of_labels_than_images_is_refused)
{
	scratch_write(IMAGES, images, sizeof(images));
	scratch_write(LABELS, (unsigned char[]){ 0, 0, 8, 1, 0, 0, 0, 1, 9 }, 9);
	expect_failure(LABELS, "2 train images, but 1 labels, at byte 4");
}

Test(data, a_label_beyond_the_classes_is_refused)
{
	scratch_write(IMAGES, images, sizeof(images));
	scratch_write(LABELS, (unsigned char[]){ 0, 0, 8, 1, 0, 0, 0, 2, 9, 10 }, 10);
	expect_failure(LABELS, "label 10 of train image 1, at byte 9");
}
