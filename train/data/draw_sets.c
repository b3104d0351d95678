/* Writes drawn sets into the files of their kinds. */
#include "train/data/draw.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "train/base/fail.h"
#include "train/data/data.h"
#include "train/data/idx.h"

struct output {
	FILE *file;
	char path[PATH_MAX];
};

static int open_output(struct output *output, const char *dir, const char *name)
{
	int length = snprintf(output->path, sizeof(output->path), "%s/%s", dir, name);
	output->file = NULL;
	if (length >= (int)sizeof(output->path))
		return fail("%s: the name is too long", dir);
	output->file = fopen(output->path, "wb");
	return output->file ? 0 : fail("%s: %s", output->path, strerror(errno));
}

/* Returns err, or else an error of any write. */
static int close_output(struct output *output, int err)
{
	if (!output->file)
		return err;
	int broken = ferror(output->file);
	if (fclose(output->file) || broken)
		return err ? err : fail("%s: %s", output->path, strerror(errno));
	return err;
}

/* Writes digits to an open pair of IDX files. */
static void write_digits(FILE *images, FILE *labels, size_t count, uint64_t seed, uint64_t first)
{
	uint8_t image[DRAW_SIZE * DRAW_SIZE];
	idx_write_header(images, (uint32_t[]){ count, DRAW_SIZE, DRAW_SIZE }, 3);
	idx_write_header(labels, (uint32_t[]){ count }, 1);
	for (size_t i = 0; i < count; i++) {
		putc(draw_digit(image, seed, first + i), labels);
		fwrite(image, 1, sizeof(image), images);
	}
}

static int write_digits_part(
	const char *dir, const char *const files[2], size_t count, uint64_t seed, uint64_t first)
{
	struct output images, labels;
	int err = open_output(&images, dir, files[0]);
	if (err)
		return err;
	err = open_output(&labels, dir, files[1]);
	if (!err)
		write_digits(images.file, labels.file, count, seed, first);
	return close_output(&labels, close_output(&images, err));
}

int draw_digits_set(const char *dir, size_t train_count, size_t test_count, uint64_t seed)
{
	int err = write_digits_part(dir, data_idx.files, train_count, seed, 0);
	return err ? err
		   : write_digits_part(dir, data_idx.files + 2, test_count, seed, train_count);
}

static int write_coloured(
	const char *dir, const char *name, size_t count, uint64_t seed, uint64_t first)
{
	struct output output;
	uint8_t record[CIFAR_RECORD];
	int err = open_output(&output, dir, name);
	for (size_t i = 0; !err && i < count; i++) {
		draw_coloured_digit(record, seed, first + i);
		fwrite(record, 1, sizeof(record), output.file);
	}
	return close_output(&output, err);
}

int draw_coloured_set(const char *dir, size_t train_count, size_t test_count, uint64_t seed)
{
	size_t first = 0;
	for (int i = 0; i < CIFAR_TRAIN_FILES; i++) {
		size_t end = train_count * (i + 1) / CIFAR_TRAIN_FILES;
		int err = write_coloured(dir, data_cifar.files[i], end - first, seed, first);
		if (err)
			return err;
		first = end;
	}
	return write_coloured(dir, data_cifar.files[CIFAR_TRAIN_FILES], test_count, seed, first);
}

int draw_text_set(const char *dir, size_t train_count, size_t test_count, uint64_t seed)
{
	struct output output;
	size_t size = train_count + test_count;
	char *text = malloc(size);
	if (!text)
		return fail("out of memory for a text of %zu bytes", size);
	int err = open_output(&output, dir, data_text.files[0]);
	if (!err) {
		draw_text(text, size, seed);
		fwrite(text, 1, size, output.file);
	}
	free(text);
	return close_output(&output, err);
}
