/* Optimizers on the CPU, as torch.optim defines them. */
#include <math.h>

#include "train/device/cpu.h"

void cpu_square_sum(struct device *device, size_t count, const float *values, double *sum)
{
	double total = 0;
	(void)device;
	for (size_t i = 0; i < count; i++)
		total += (double)values[i] * values[i];
	*sum += total;
}

void cpu_clip_factor(struct device *device, const double *square_sum, float max_norm, float unscale,
	float *factor)
{
	double norm = unscale * sqrt(*square_sum);
	(void)device;
	*factor = unscale;
	if (!isfinite(norm))
		*factor = NAN;
	else if (max_norm > 0 && norm + 1e-6 > max_norm)
		*factor = (float)(unscale * (max_norm / (norm + 1e-6)));
}

void cpu_sgd(struct device *device, const struct sgd *sgd, size_t count, const float *grad,
	const float *factor, float *value, float *momentum)
{
	float scale = factor ? *factor : 1, rate = sgd->rate, decay = sgd->weight_decay;
	(void)device;
	if (isnan(scale))
		return;
	if (!momentum) {
		for (size_t i = 0; i < count; i++)
			value[i] -= rate * (scale * grad[i] + decay * value[i]);
		return;
	}
	float keep = sgd->first ? 0 : sgd->momentum;
	/* Nesterov: the gradient plus momentum times the new buffer; else the buffer alone. */
	float direct = sgd->nesterov, through = sgd->nesterov ? sgd->momentum : 1;
	for (size_t i = 0; i < count; i++) {
		float slope = scale * grad[i] + decay * value[i];
		momentum[i] = keep * momentum[i] + slope;
		value[i] -= rate * (direct * slope + through * momentum[i]);
	}
}

void cpu_adam(struct device *device, const struct adam *adam, size_t count, const float *grad,
	const float *factor, float *value, float *mean, float *square)
{
	float scale = factor ? *factor : 1, beta1 = adam->beta1, beta2 = adam->beta2;
	float coupled = adam->decoupled ? 0 : adam->weight_decay;
	float keep = adam->decoupled ? 1 - adam->rate * adam->weight_decay : 1;
	float rate = (float)(adam->rate / (1 - pow(beta1, adam->step)));
	float root = (float)(1 / sqrt(1 - pow(beta2, adam->step)));
	(void)device;
	if (isnan(scale))
		return;
	for (size_t i = 0; i < count; i++) {
		float slope = scale * grad[i] + coupled * value[i];
		mean[i] = beta1 * mean[i] + (1 - beta1) * slope;
		square[i] = beta2 * square[i] + (1 - beta2) * slope * slope;
		value[i] = keep * value[i] -
			   rate * mean[i] / (sqrtf(square[i]) * root + adam->epsilon);
	}
}
