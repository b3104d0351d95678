/*
 * Products of matrices by AVX-512, for sizes at which they take less time than OpenBLAS's: a batch
 * of some samples, and up to a few hundred rows and columns.
 */
#ifndef TRAIN_DEVICE_CPU_PRODUCT_H
#define TRAIN_DEVICE_CPU_PRODUCT_H

#include <stdbool.h>
#include <stddef.h>

#include "train/device/device.h"

struct product_kernels {
	/* Floats of scratch for multiply(). */
	size_t (*scratch)(const struct product *product);
	/* The first of the batch; inner is above 0, and beta 1, or 0 with alpha 1. */
	void (*multiply)(const struct product *product, float *scratch);
	/* Up to this inner side, whole sums are multiplied by alpha, rounded, and added to c. */
	int depth;
};

extern const struct product_kernels cpu_product_avx512;

/* The chosen ones; without a multiply(), OpenBLAS computes all products. */
const struct product_kernels *cpu_product_kernels(void);
/* Chooses "avx512", where the size is right for it, or "plain": OpenBLAS alone. For tests. Returns
   whether the processor has it. */
bool cpu_product_choose(const char *name);
/* Whether this product is one for the kernels, if the processor has them. */
bool cpu_product_is_ours(const struct product *product);

#endif
