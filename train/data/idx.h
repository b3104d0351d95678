/*
 * Writes images in the IDX format of MNIST and FashionMNIST (http://yann.lecun.com/exdb/mnist/,
 * "the IDX file format"): two zero bytes, the type (8: bytes), the number of dimensions, each
 * dimension as a big-endian u32, then the elements.
 */
#ifndef TRAIN_IDX_H
#define TRAIN_IDX_H

#include <stdint.h>
#include <stdio.h>

/* Writes the header alone; the caller's elements follow. Errors stick to the file. */
void idx_write_header(FILE *file, const uint32_t *dimensions, int dimension_count);

#endif
