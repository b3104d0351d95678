#include <criterion/criterion.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "train/data/cifar.h"
#include "train/rounding.h"
#include "train/scratch.h"

TestSuite(cifar, .init = scratch_make, .fini = scratch_remove);

/* Records of each file. */
static const int counts[6] = { 2, 1, 3, 1, 2, 2 };

static uint8_t records[4 * CIFAR_RECORD];

/* Record r of file f: its label is f + r, and pixel p is 7 f + 31 r + p modulo 256. */
static void make_records(int file)
{
	for (int r = 0; r < 4; r++) {
		uint8_t *record = records + r * CIFAR_RECORD;
		record[0] = (file + r) % 10;
		for (int p = 0; p < CIFAR_PIXELS; p++)
			record[1 + p] = 7 * file + 31 * r + p;
	}
}

static void write_set(void)
{
	for (int f = 0; f < 6; f++) {
		make_records(f);
		scratch_write(data_cifar.files[f], records, counts[f] * CIFAR_RECORD);
	}
}

static void expect_sample(const struct data *data, uint32_t pick, int file, int record)
{
	static float image[CIFAR_PIXELS + 1];
	int32_t label[2] = { -1, -1 };
	image[CIFAR_PIXELS] = 77.0f;
	data_gather(data, &pick, 1, image, label);
	cr_assert_eq(label[0], (file + record) % 10);
	cr_assert_eq(label[1], -1);
	cr_assert_eq(image[CIFAR_PIXELS], 77.0f);
	for (int p = 0; p < CIFAR_PIXELS; p++) {
		uint8_t pixel = 7 * file + 31 * record + p;
		/* (pixel / 255 - 0.5) / 0.5 rounds the quotient and the difference, and doubles. */
		cr_assert_float_eq(image[p], pixel / 127.5 - 1.0, 2 * ROUNDING(2, 1));
	}
}

Test(cifar, samples_of_all_files_follow_each_other)
{
	write_set();
	struct data *data = files_open(&data_cifar, "", DATA_TRAIN);
	cr_assert_eq(data->count, 9);
	cr_assert_eq(data->channels, 3);
	cr_assert_eq(data->rows, 32);
	cr_assert_eq(data->columns, 32);
	cr_assert_eq(data->input_count, 3072);
	cr_assert_eq(data->label_count, 1);
	cr_assert_eq(data->classes, 10);
	uint32_t pick = 0;
	for (int f = 0; f < 5; f++)
		for (int r = 0; r < counts[f]; r++)
			expect_sample(data, pick++, f, r);
	data_destroy(data);
	data = files_open(&data_cifar, "", DATA_TEST);
	cr_assert_eq(data->count, 2);
	expect_sample(data, 0, 5, 0);
	expect_sample(data, 1, 5, 1);
	data_destroy(data);
}

Test(cifar, extremes_become_minus_one_and_one_exactly)
{
	float image[CIFAR_PIXELS];
	int32_t label;
	write_set();
	memset(records, 0, CIFAR_RECORD);
	memset(records + 1, 255, 1024);
	scratch_write("test_batch.bin", records, CIFAR_RECORD);
	struct data *data = files_open(&data_cifar, "", DATA_TEST);
	data_gather(data, (uint32_t[]){ 0 }, 1, image, &label);
	/* The first channel is whole before the second. */
	for (int p = 0; p < CIFAR_PIXELS; p++)
		cr_assert_eq(image[p], p < 1024 ? 1.0f : -1.0f);
	data_destroy(data);
}

Test(cifar, a_gzip_file_is_read)
{
	write_set();
	make_records(1);
	unlink(scratch_path("data_batch_2.bin"));
	files_gzip("data_batch_2.bin.gz", records, CIFAR_RECORD);
	struct data *data = files_open(&data_cifar, "", DATA_TRAIN);
	cr_assert_eq(data->count, 9);
	expect_sample(data, 2, 1, 0);
	data_destroy(data);
}

Test(cifar, a_missing_file_is_named)
{
	write_set();
	unlink(scratch_path("data_batch_3.bin"));
	files_refuse(&data_cifar, "", DATA_TRAIN, "data_batch_3.bin", "neither");
	unlink(scratch_path("test_batch.bin"));
	files_refuse(&data_cifar, "", DATA_TEST, "test_batch.bin", "neither");
}

Test(cifar, a_file_that_ends_within_a_record_is_refused)
{
	static const size_t sizes[] = { 1, 3072, 3074, 6145, 6147 };
	char reason[128];
	write_set();
	make_records(3);
	for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
		scratch_write("data_batch_4.bin", records, sizes[i]);
		snprintf(reason, sizeof(reason),
			"ends too early, at byte %zu: its last record, of 3073 bytes, begins at "
			"byte %zu",
			sizes[i], sizes[i] / 3073 * 3073);
		files_refuse(&data_cifar, "", DATA_TRAIN, "data_batch_4.bin", reason);
	}
	scratch_write("data_batch_4.bin", "", 0);
	files_refuse(&data_cifar, "", DATA_TRAIN, "data_batch_4.bin", "is empty");
	unlink(scratch_path("data_batch_4.bin"));
	files_gzip("data_batch_4.bin.gz", records, 3074);
	files_refuse(&data_cifar, "", DATA_TRAIN, "data_batch_4.bin.gz",
		"ends too early, at byte 3074 (unpacked)");
}

Test(cifar, a_label_beyond_the_classes_is_refused)
{
	write_set();
	make_records(2);
	records[2 * CIFAR_RECORD] = 10;
	scratch_write("data_batch_3.bin", records, 3 * CIFAR_RECORD);
	files_refuse(&data_cifar, "", DATA_TRAIN, "data_batch_3.bin",
		"label 10 of record 2, at byte 6146, is not one of 10 classes");
	records[2 * CIFAR_RECORD] = 255;
	scratch_write("test_batch.bin", records, 3 * CIFAR_RECORD);
	files_refuse(&data_cifar, "", DATA_TEST, "test_batch.bin", "label 255 of record 2");
}
