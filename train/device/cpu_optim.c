/* Optimizers on the CPU, as torch.optim defines them. */
#include <math.h>

#include "train/device/cpu.h"
#include "train/device/cpu_elements.h"

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
	float scale = factor ? *factor : 1;
	(void)device;
	if (!isnan(scale))
		cpu_elements()->sgd(sgd, count, scale, grad, value, momentum);
}

void cpu_adam(struct device *device, const struct adam *adam, size_t count, const float *grad,
	const float *factor, float *value, float *mean, float *square)
{
	float scale = factor ? *factor : 1;
	(void)device;
	if (!isnan(scale))
		cpu_elements()->adam(adam, count, scale, grad, value, mean, square);
}
