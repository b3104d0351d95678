/*
 * Labelled images in the IDX format of MNIST and FashionMNIST
 * (http://yann.lecun.com/exdb/mnist/, "the IDX file format"): two zero bytes, the type (8: bytes),
 * the number of dimensions, each dimension as a big-endian u32, then the elements. Plain or gzip.
 */
#ifndef TRAIN_DATA_H
#define TRAIN_DATA_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define DATA_CLASSES 10

struct data {
	size_t count, rows, columns;
	uint8_t *images; /* [count][rows][columns] */
	uint8_t *labels; /* [count], each below DATA_CLASSES */
};

/* The file of a part ("train" or "t10k"): its images, or its labels. */
extern const char *const data_files[4];

/* Room for `count` images of that shape; images and labels are zero. */
int data_create(struct data **data, size_t count, size_t rows, size_t columns);
void data_destroy(struct data *data);

/* Reads "train" or "t10k" from dir: PART-images-idx3-ubyte and PART-labels-idx1-ubyte, or .gz. An
   invalid file fails, with its name and the offset. */
int data_read(struct data **data, const char *dir, const char *part);
/* Writes the two files, plain. */
int data_write(const struct data *data, const char *dir, const char *part);
/* Finds out whether dir holds all four files; does not open them. Fails if dir holds only some. */
int data_find(bool *found, const char *dir);
/* The same; false on failure. */
bool data_present(const char *dir);

/* Copies images `picks` as floats from 0 to 1, and their labels. */
void data_gather(const struct data *data, const uint32_t *picks /* [count] */, size_t count,
	float *images /* [count][rows * columns] */, int32_t *labels /* [count] */);

#endif
