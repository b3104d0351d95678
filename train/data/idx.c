/* Images in IDX files. Pixels become floats from 0 to 1. */
#include "train/data/idx.h"

#include <stdlib.h>
#include <string.h>

#include "train/base/fail.h"
#include "train/data/data.h"

#define LABELS_HEADER 8 /* bytes before the first label */
#define IMAGES_HEADER 16

#define CACHE_LINE 64
#define AHEAD 2 /* images that are prefetched */

/* The most bytes that a header may ask for. */
#define ELEMENTS_MAX ((uint64_t)1 << 30)

static uint32_t big_endian(const uint8_t *bytes)
{
	return (uint32_t)bytes[0] << 24 | (uint32_t)bytes[1] << 16 | (uint32_t)bytes[2] << 8 |
	       bytes[3];
}

static int check_magic(const struct content *content, int dimensions)
{
	for (size_t i = 0; i < 4 && i < content->size; i++) {
		int right = i == 3 ? dimensions : i == 2 ? 8 : 0;
		if (content->bytes[i] != right)
			return fail("%s: not an IDX file of bytes in %d dimension%s: byte %zu is "
				    "%d, not %d",
				content->path, dimensions, dimensions > 1 ? "s" : "", i,
				content->bytes[i], right);
	}
	return 0;
}

/* Reads the header, and compares it with the size of the file. */
static int read_header(const struct content *content, int dimension_count, uint32_t *dimensions)
{
	size_t header = 4 + 4 * (size_t)dimension_count;
	uint64_t size = 1;
	int err = check_magic(content, dimension_count);
	if (err)
		return err;
	for (size_t at = 4; at < header && at + 4 <= content->size; at += 4) {
		uint32_t number = big_endian(content->bytes + at);
		/* Checked before each product: none overflows. */
		if (!number || number > ELEMENTS_MAX / size)
			return fail("%s: its header asks for an impossible size: %u at byte %zu",
				content->path, number, at);
		size *= number;
		dimensions[at / 4 - 1] = number;
	}
	if (content->size < header || content->size - header < size)
		return fail("%s: ends too early, at byte %zu%s", content->path, content->size,
			content_unit(content));
	if (content->size - header > size)
		return fail("%s: is longer than its header says, at byte %zu%s", content->path,
			header + (size_t)size, content_unit(content));
	return 0;
}

/* Copied, so that they stay checked whatever becomes of the file. */
static int copy_labels(struct data *data, const struct content *content)
{
	data->labels = malloc(data->count);
	if (!data->labels)
		return fail("%s: out of memory for %zu labels", content->path, data->count);
	memcpy(data->labels, content->bytes + LABELS_HEADER, data->count);
	for (size_t i = 0; i < data->count; i++) {
		if (data->labels[i] >= DATA_CLASSES)
			return fail("%s: label %d of image %zu, at byte %zu%s, is not one of %d "
				    "classes",
				content->path, data->labels[i], i, LABELS_HEADER + i,
				content_unit(content), DATA_CLASSES);
	}
	return 0;
}

static int open_idx(struct data *data, const struct data_source *source, enum data_part part)
{
	const char *const *files = data_idx.files + (part == DATA_TRAIN ? 0 : 2);
	struct content *images = &data->contents[0], *labels = &data->contents[1];
	uint32_t shape[3], label_count;
	int err = data_open_file(images, source->path, files[0]);
	if (!err)
		err = read_header(images, 3, shape);
	if (!err)
		err = data_open_file(labels, source->path, files[1]);
	if (!err)
		err = read_header(labels, 1, &label_count);
	if (!err && shape[0] != label_count)
		err = fail("%s: has %u labels at byte 4, for %u images", labels->path, label_count,
			shape[0]);
	if (err)
		return err;
	data->count = shape[0];
	data->channels = 1;
	data->rows = shape[1];
	data->columns = shape[2];
	data->input_count = (size_t)shape[1] * shape[2];
	data->label_count = 1;
	data->classes = DATA_CLASSES;
	return copy_labels(data, labels);
}

static const uint8_t *image_of(const struct data *data, uint32_t pick)
{
	return data->contents[0].bytes + IMAGES_HEADER + pick * data->input_count;
}

/* A shuffled set has each image far from the one before: the processor fetches none by itself. */
static void prefetch(const struct data *data, const uint8_t *image)
{
	for (size_t p = 0; p < data->input_count; p += CACHE_LINE)
		__builtin_prefetch(image + p);
}

static void gather_idx(
	const struct data *data, const uint32_t *picks, size_t count, void *inputs, int32_t *labels)
{
	float *out = inputs;
	for (size_t i = 0; i < count; i++, out += data->input_count) {
		const uint8_t *image = image_of(data, picks[i]);
		if (i + AHEAD < count)
			prefetch(data, image_of(data, picks[i + AHEAD]));
		for (size_t p = 0; p < data->input_count; p++)
			out[p] = (float)image[p] * (1.0f / 255.0f);
		labels[i] = data->labels[picks[i]];
	}
}

const struct data_kind data_idx = {
	.name = "IDX",
	.files = { "train-images-idx3-ubyte", "train-labels-idx1-ubyte", "t10k-images-idx3-ubyte",
		"t10k-labels-idx1-ubyte" },
	.open = open_idx,
	.gather = gather_idx,
};

void idx_write_header(FILE *file, const uint32_t *dimensions, int dimension_count)
{
	fwrite((uint8_t[]){ 0, 0, 8, dimension_count }, 1, 4, file);
	for (int i = 0; i < dimension_count; i++) {
		uint32_t n = dimensions[i];
		fwrite((uint8_t[]){ n >> 24, n >> 16, n >> 8, n }, 1, 4, file);
	}
}
