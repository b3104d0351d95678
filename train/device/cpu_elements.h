/*
 * Loops over elements, in one variant for each width of vectors. All give the same bits, for none
 * fuses a multiplication with an addition: ranks with different processors keep the same
 * parameters.
 */
#ifndef TRAIN_DEVICE_CPU_ELEMENTS_H
#define TRAIN_DEVICE_CPU_ELEMENTS_H

#include <stdbool.h>
#include <stddef.h>

#include "train/device/shapes.h"

struct element_loops {
	/* As the operations of device.h. */
	void (*add)(size_t count, const float *a, const float *b, float *out);
	void (*relu)(size_t count, const float *in, float *out);
	void (*relu_grad)(size_t count, const float *out, const float *out_grad, float *in_grad);
	/* Likewise; the gradient is scale * grad. */
	void (*sgd)(const struct sgd *sgd, size_t count, float scale, const float *grad,
		float *value, float *momentum);
	void (*adam)(const struct adam *adam, size_t count, float scale, const float *grad,
		float *value, float *mean, float *square);
};

/* The chosen variant. */
const struct element_loops *cpu_elements(void);
/* Chooses "avx2" or "plain". For tests. Returns whether the processor has it. */
bool cpu_elements_choose(const char *name);

#endif
