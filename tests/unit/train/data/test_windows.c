#include <criterion/criterion.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "train/base/fail.h"
#include "train/scratch.h"

TestSuite(windows, .init = scratch_make, .fini = scratch_remove);

#define SIZE 1003
static uint8_t text[SIZE];

static void make_text(void)
{
	for (int i = 0; i < SIZE; i++)
		text[i] = i * 37 + i / 200;
}

/* The window that begins at this byte of `text`. */
static void expect_window(const struct data *data, uint32_t pick, size_t first)
{
	int32_t tokens[FILES_WINDOW + 1], labels[FILES_WINDOW + 1];
	tokens[FILES_WINDOW] = labels[FILES_WINDOW] = -1;
	data_gather(data, &pick, 1, tokens, labels);
	for (int t = 0; t < FILES_WINDOW; t++) {
		cr_assert_eq(tokens[t], text[first + t]);
		cr_assert_eq(labels[t], text[first + t + 1]);
	}
	cr_assert_eq(tokens[FILES_WINDOW], -1);
	cr_assert_eq(labels[FILES_WINDOW], -1);
}

static void expect_parts(const char *name)
{
	struct data *train = files_open(&data_text, name, DATA_TRAIN);
	struct data *test = files_open(&data_text, name, DATA_TEST);
	/* 1003 - 100 bytes, and 100: windows of 8, and one byte more behind the last. */
	cr_assert_eq(train->count, 112);
	cr_assert_eq(test->count, 12);
	cr_assert_eq(train->channels, 0);
	cr_assert_eq(train->rows, 0);
	cr_assert_eq(train->columns, 0);
	cr_assert_eq(train->input_count, FILES_WINDOW);
	cr_assert_eq(train->label_count, FILES_WINDOW);
	cr_assert_eq(train->classes, 256);
	for (uint32_t i = 0; i < train->count; i++)
		expect_window(train, i, i * 8);
	for (uint32_t i = 0; i < test->count; i++)
		expect_window(test, i, 903 + i * 8);
	data_destroy(train);
	data_destroy(test);
}

Test(windows, windows_cover_both_parts)
{
	make_text();
	scratch_write("any.name", text, SIZE);
	expect_parts("any.name");
}

Test(windows, a_gzip_file_is_read_whatever_its_name)
{
	make_text();
	files_gzip("text.txt.gz", text, SIZE);
	expect_parts("text.txt.gz");
	files_gzip("archive", text, SIZE);
	expect_parts("archive");
}

Test(windows, a_folder_with_a_text_is_read)
{
	make_text();
	scratch_write("text.txt", text, SIZE);
	expect_parts("");
}

Test(windows, a_file_of_its_own_is_the_test_part)
{
	struct data_source source = files_source(&data_text, "train");
	struct data *train, *test;
	make_text();
	source.test_path = scratch_path("test");
	scratch_write("train", text, 17);
	scratch_write("test", text + 500, 33);
	cr_assert_eq(data_open_both(&train, &test, &source), 0, "%s", failure());
	cr_assert_eq(train->count, 2);
	cr_assert_eq(test->count, 4);
	expect_window(train, 1, 8);
	expect_window(test, 0, 500);
	expect_window(test, 3, 524);
	data_destroy(train);
	data_destroy(test);
	scratch_write("test", text, 8);
	cr_assert_neq(data_open_both(&train, &test, &source), 0);
	cr_assert(strstr(failure(),
			  "/test: ends too early, at byte 8: the text to test on, from byte 0"),
		"%s", failure());
	cr_assert_null(train);
	source.test_path = scratch_path("absent");
	cr_assert_neq(data_open_both(&train, &test, &source), 0);
	cr_assert(strstr(failure(), "absent: No such file"), "%s", failure());
}

Test(windows, a_text_shorter_than_a_window_is_refused)
{
	make_text();
	scratch_write("t", text, 0);
	files_refuse(&data_text, "t", DATA_TRAIN, "/t", "is empty");
	for (size_t size = 1; size <= 150; size++) {
		struct data *data;
		char reason[128];
		size_t train_size = size - size / 10;
		scratch_write("t", text, size);
		snprintf(reason, sizeof(reason),
			"ends too early, at byte %zu: the text to train on, from byte 0 to %zu, is shorter than a window of 9 bytes",
			size, train_size);
		if (train_size < 9)
			files_refuse(&data_text, "t", DATA_TRAIN, "/t", reason);
		snprintf(reason, sizeof(reason), "the text to test on, from byte %zu to %zu",
			train_size, size);
		if (size / 10 < 9)
			files_refuse(&data_text, "t", DATA_TEST, "/t", reason);
		else {
			data = files_open(&data_text, "t", DATA_TEST);
			cr_assert_eq(data->count, (size / 10 - 1) / 8);
			data_destroy(data);
		}
	}
}
