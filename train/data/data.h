/*
 * A part of a data set, to train on or to test on: samples of equal shape, each an input and its
 * labels. The kinds of files are in a table: IDX (idx.c), CIFAR-10 (cifar.c), and text (text.c).
 *
 * Plain files stay mapped; a sample is converted when it is gathered. A file that is cut off, too
 * long or damaged fails to open, in one line with its name and the offset.
 */
#ifndef TRAIN_DATA_H
#define TRAIN_DATA_H

#include <limits.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "train/data/content.h"

#define DATA_CLASSES 10 /* of each set of images */
#define DATA_FILES_MAX 6 /* of a set in a directory */

enum data_part { DATA_TRAIN, DATA_TEST };

struct data_kind;

/* The place of a set. */
struct data_source {
	const struct data_kind *kind;
	char path[PATH_MAX]; /* the directory with the kind's files; of text also the file itself */
	const char *test_path; /* of text: the file to test on; NULL: the last tenth of `path` */
	size_t window; /* of text: tokens of an input, at least 1 */
};

struct data {
	size_t count; /* samples, at least one and at most UINT32_MAX */
	int channels, rows, columns; /* of an image; 0, 0, 0: text */
	size_t input_count; /* 4-byte elements of a sample's input: floats, or int32_t tokens */
	size_t label_count; /* labels of a sample: 1, or one a token */
	int classes; /* labels are below it, and tokens as well */

	/* Private. */
	const struct data_kind *kind;
	struct content contents[DATA_FILES_MAX];
	uint8_t *labels; /* [count], checked; NULL: text */
	size_t first; /* of text: the offset of the first window */
};

struct data_kind {
	const char *name; /* for reasons */
	const char *files[DATA_FILES_MAX + 1]; /* of a set in a directory; NULL ends them */
	/* Opens the files of a part and sets all of *data but kind; data_destroy() follows a
	   failure. */
	int (*open)(struct data *data, const struct data_source *source, enum data_part part);
	/* As data_gather(). */
	void (*gather)(const struct data *data, const uint32_t *picks, size_t count, void *inputs,
		int32_t *labels);
};

extern const struct data_kind data_idx, data_cifar, data_text;

/* On failure *data is NULL. */
int data_open(struct data **data, const struct data_source *source, enum data_part part);
/* Both parts; fails also if their samples have different shapes. On failure both are NULL. */
int data_open_both(struct data **train, struct data **test, const struct data_source *source);
/* Accepts NULL. */
void data_destroy(struct data *data);

/*
 * Copies samples `picks`, each below data->count. Floats are normalised as the kind's file states.
 * Any number of threads may call it.
 */
void data_gather(const struct data *data, const uint32_t *picks /* [count] */, size_t count,
	void *inputs /* [count][input_count] */, int32_t *labels /* [count][label_count] */);
/* Fails if a file was cut off while samples were gathered. */
int data_check(const struct data *data);

/* Finds out whether dir holds all files of a set, plain or .gz; does not open them. Fails if dir
   holds only some, and names the others. */
int data_find(bool *found, const char *dir, const struct data_kind *kind);

/* For the kinds: opens dir/name or dir/name.gz as the next of data->contents. */
int data_open_file(struct content *content, const char *dir, const char *name);

#endif
