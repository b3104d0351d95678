/*
 * Kernels of a program's own, for tests, of 256 threads a block. In the order of their parameters:
 *
 *   program_add(float *at, unsigned count, float by): adds to each element. Its blocks have more
 *   than half of a multiprocessor's registers, as those of matrix products do.
 *
 *   program_spin(uint32_t *started, uint32_t *stop): sets *started, then spins until *stop is not
 *   0. Both are pinned. Its blocks have as many registers as the library's.
 */
#ifndef PROGRAM_H
#define PROGRAM_H

#include "emulated_driver.h"

#define PROGRAM_KERNELS 2

struct program_kernel {
	const char *name;
	int registers;
	void (*run)(void *launch); /* once */
};

extern const struct program_kernel program_kernels[PROGRAM_KERNELS];

/* -1: there is none of this name. */
int program_find(const char *name);
/* A launch with these parameters, which are copied; NULL: no memory. *grid: whether it spins. */
void *program_bind(
	const struct program_kernel *kernel, void **parameters, struct emulated_grid *grid);

#endif
