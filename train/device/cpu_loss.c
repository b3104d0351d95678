/* Softmax cross-entropy on the CPU. */
#include <math.h>

#include "train/device/cpu.h"

static int largest(const float *logits /* [columns] */, int columns)
{
	int best = 0;
	for (int c = 1; c < columns; c++)
		if (logits[c] > logits[best])
			best = c;
	return best;
}

/* log(sum of exp(logit)), safe from overflow: the largest exponent is 0. */
static double log_sum_exp(const float *logits /* [columns] */, int columns)
{
	double top = logits[largest(logits, columns)], sum = 0;
	for (int c = 0; c < columns; c++)
		sum += exp(logits[c] - top);
	return top + log(sum);
}

void cpu_loss(struct device *device, int rows, int columns, const float *logits,
	const int32_t *labels, double *sums)
{
	(void)device;
	sums[0] = sums[1] = 0;
	for (int r = 0; r < rows; r++, logits += columns) {
		sums[0] += log_sum_exp(logits, columns) - logits[labels[r]];
		sums[1] += largest(logits, columns) == labels[r];
	}
}

/* The gradient of a row's loss by its logits: softmax, less 1 at the label. */
void cpu_loss_grad(struct device *device, int rows, int columns, const float *logits,
	const int32_t *labels, float scale, float *grad)
{
	(void)device;
	for (int r = 0; r < rows; r++, logits += columns, grad += columns) {
		double norm = log_sum_exp(logits, columns);
		for (int c = 0; c < columns; c++)
			grad[c] = scale * (float)(exp(logits[c] - norm) - (c == labels[r]));
	}
}
