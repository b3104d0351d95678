/*
 * Loops over floats that take more than memory's time, in one variant for each width of vectors.
 * The widest that the processor has is chosen once, before main(). A variant gives the same bits in
 * every run; variants differ by rounding.
 */
#ifndef TRAIN_DEVICE_CPU_VECTORS_H
#define TRAIN_DEVICE_CPU_VECTORS_H

#include <stdbool.h>
#include <stddef.h>

struct vector_loops {
	/* As the operations of device.h. */
	void (*gelu)(size_t count, const float *in, float *out);
	void (*gelu_grad)(size_t count, const float *in, const float *out_grad, float *in_grad);
	/* The greatest of scale * in[]; -INFINITY for none, any number if one is NaN. */
	float (*greatest)(size_t count, float scale, const float *in);
	/* out[] = exp(scale * in[] - top); returns their sum. out may be in, or NULL. */
	float (*exp_sum)(size_t count, float scale, const float *in, float top, float *out);
	/* The sum of a[] * b[]. */
	float (*dot)(size_t count, const float *a, const float *b);
	/* out[] = the row, normalised, times weight[] plus bias[]; saves mean and inverse
	   deviation. */
	void (*layer_norm)(size_t count, float epsilon, const float *in, const float *weight,
		const float *bias, float *mean, float *inverse, float *out);
	/* Adds this row's part to weight_grad[] and bias_grad[]; sets in_grad[]. */
	void (*layer_norm_grad)(size_t count, const float *in, float mean, float inverse,
		const float *weight, const float *out_grad, float *in_grad, float *weight_grad,
		float *bias_grad);
};

/* The chosen variant. */
const struct vector_loops *cpu_vectors(void);
/* Chooses "avx512", "avx2" or "plain". For tests. Returns whether the processor has it. */
bool cpu_vectors_choose(const char *name);

#endif
