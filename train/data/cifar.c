/*
 * Images in CIFAR-10's binary files. A pixel x becomes (x / 255 - 0.5) / 0.5, as in PyTorch's
 * tutorial "Training a Classifier". The files may hold any number of records.
 */
#include "train/data/cifar.h"

#include <stdlib.h>

#include "train/base/fail.h"
#include "train/data/data.h"

static int check_size(const struct content *content)
{
	size_t whole = content->size / CIFAR_RECORD * CIFAR_RECORD;
	if (!content->size)
		return fail("%s: is empty: no record of %d bytes begins at byte 0", content->path,
			CIFAR_RECORD);
	if (content->size > whole)
		return fail("%s: ends too early, at byte %zu%s: its last record, of %d bytes, "
			    "begins at byte %zu",
			content->path, content->size, content_unit(content), CIFAR_RECORD, whole);
	return 0;
}

/* Copied, so that they stay checked whatever becomes of the file. */
static int copy_labels(const struct content *content, uint8_t *labels)
{
	for (size_t i = 0; i < content->size / CIFAR_RECORD; i++) {
		labels[i] = content->bytes[i * CIFAR_RECORD];
		if (labels[i] >= DATA_CLASSES)
			return fail("%s: label %d of record %zu, at byte %zu%s, is not one of %d "
				    "classes",
				content->path, labels[i], i, i * CIFAR_RECORD,
				content_unit(content), DATA_CLASSES);
	}
	return 0;
}

static int open_cifar(struct data *data, const struct data_source *source, enum data_part part)
{
	int file_count = part == DATA_TRAIN ? CIFAR_TRAIN_FILES : 1;
	const char *const *files = data_cifar.files + (part == DATA_TRAIN ? 0 : CIFAR_TRAIN_FILES);
	uint8_t *labels;
	data->channels = CIFAR_CHANNELS;
	data->rows = data->columns = CIFAR_SIDE;
	data->input_count = CIFAR_PIXELS;
	data->label_count = 1;
	data->classes = DATA_CLASSES;
	for (int i = 0; i < file_count; i++) {
		struct content *content = &data->contents[i];
		int err = data_open_file(content, source->path, files[i]);
		if (!err)
			err = check_size(content);
		if (err)
			return err;
		data->count += content->size / CIFAR_RECORD;
	}
	labels = data->labels = malloc(data->count);
	if (!labels)
		return fail("%s: out of memory for %zu labels", source->path, data->count);
	for (int i = 0; i < file_count; i++) {
		int err = copy_labels(&data->contents[i], labels);
		if (err)
			return err;
		labels += data->contents[i].size / CIFAR_RECORD;
	}
	return 0;
}

/* The pixels of sample `pick`, which lies in one of a few files. */
static const uint8_t *find_image(const struct data *data, size_t pick)
{
	const struct content *content = data->contents;
	for (; pick >= content->size / CIFAR_RECORD; content++)
		pick -= content->size / CIFAR_RECORD;
	return content->bytes + pick * CIFAR_RECORD + 1;
}

static void gather_cifar(
	const struct data *data, const uint32_t *picks, size_t count, void *inputs, int32_t *labels)
{
	float *out = inputs;
	for (size_t i = 0; i < count; i++, out += CIFAR_PIXELS) {
		const uint8_t *image = find_image(data, picks[i]);
		/* The roundings of PyTorch's ToTensor and Normalize. */
		for (int p = 0; p < CIFAR_PIXELS; p++)
			out[p] = ((float)image[p] / 255.0f - 0.5f) / 0.5f;
		labels[i] = data->labels[picks[i]];
	}
}

const struct data_kind data_cifar = {
	.name = "CIFAR-10",
	.files = { "data_batch_1.bin", "data_batch_2.bin", "data_batch_3.bin", "data_batch_4.bin",
		"data_batch_5.bin", "test_batch.bin" },
	.open = open_cifar,
	.gather = gather_cifar,
};
