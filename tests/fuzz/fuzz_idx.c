/*
 * Sets of images and labels in IDX files, and texts. The first byte chooses; the next two have the
 * size of the labels' file, which ends the input.
 */
#include "folder.h"
#include "fuzz.h"
#include "train/data/data.h"

#define SAMPLES 4

/* Gathers the first and the last samples: each byte that a set promises is there. */
static void gather(const struct data *data)
{
	uint32_t picks[SAMPLES];
	float *inputs;
	int32_t *labels;

	if (data->input_count > 1 << 16)
		return;
	inputs = malloc(SAMPLES * data->input_count * 4);
	labels = malloc(SAMPLES * data->label_count * 4);
	FUZZ_CHECK(inputs && labels && data->count > 0);
	for (uint32_t i = 0; i < SAMPLES; i++)
		picks[i] = (uint32_t)(i % 2 ? data->count - 1 : i % data->count);
	data_gather(data, picks, SAMPLES, inputs, labels);
	for (size_t i = 0; i < SAMPLES * data->label_count; i++)
		FUZZ_CHECK(labels[i] >= 0 && labels[i] < data->classes);
	FUZZ_CHECK(data_check(data) == 0);
	free(inputs);
	free(labels);
}

static void open_set(const struct data_source *source)
{
	struct data *data;

	if (data_open(&data, source, DATA_TRAIN))
		return;
	gather(data);
	data_destroy(data);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static const char *images, *labels, *text;
	static struct data_source set = { .kind = &data_idx }, book = { .kind = &data_text };

	if (!images) {
		images = fuzz_folder_file("train-images-idx3-ubyte");
		labels = fuzz_folder_file("train-labels-idx1-ubyte");
		text = fuzz_folder_file("book.txt");
		strcpy(set.path, fuzz_folder());
		strcpy(book.path, text);
	}
	if (size < 3)
		return 0;
	if (data[0] & 1) {
		book.window = 1 + data[1];
		fuzz_folder_write(text, data + 3, size - 3);
		open_set(&book);
		return 0;
	}
	size_t behind = (size_t)data[1] << 8 | data[2], rest = size - 3;

	if (behind > rest)
		behind = rest;
	fuzz_folder_write(images, data + 3, rest - behind);
	fuzz_folder_write(labels, data + 3 + rest - behind, behind);
	open_set(&set);
	return 0;
}
