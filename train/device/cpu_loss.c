/* Softmax cross-entropy on the CPU. */
#include <math.h>

#include "train/device/cpu.h"
#include "train/device/cpu_vectors.h"

/* Whether the label has the largest logit: the first of equals. */
static bool is_right(const float *logits, int32_t label, float top)
{
	for (int32_t c = 0; c < label; c++)
		if (logits[c] == top)
			return false;
	return logits[label] == top;
}

/* Less the largest logit, no exponent overflows. */
void cpu_loss(struct device *device, int rows, int columns, const float *logits,
	const int32_t *labels, double *sums)
{
	const struct vector_loops *loops = cpu_vectors();
	(void)device;
	for (int r = 0; r < rows; r++, logits += columns) {
		float top = loops->greatest(columns, 1, logits);
		double sum = loops->exp_sum(columns, 1, logits, top, NULL);
		sums[0] += log(sum) + ((double)top - logits[labels[r]]);
		sums[1] += is_right(logits, labels[r], top);
	}
}

/* The gradient of a row's loss by its logits: softmax, less 1 at the label. */
void cpu_loss_grad(struct device *device, int rows, int columns, const float *logits,
	const int32_t *labels, float scale, float *grad)
{
	const struct vector_loops *loops = cpu_vectors();
	for (int r = 0; r < rows; r++, logits += columns, grad += columns) {
		float top = loops->greatest(columns, 1, logits);
		float sum = loops->exp_sum(columns, 1, logits, top, grad);
		cpu_scale(device, columns, scale / sum, grad);
		grad[labels[r]] -= scale;
	}
}
