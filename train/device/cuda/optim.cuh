/* Optimizers, as cpu_optim.c has them, and types of numbers. */

/* sums[part] = the sum of squares of elements whose block has that number. */
extern "C" __global__ void train_square_parts(
	size_t count, int parts, const float *values, double *sums)
{
	for (int part = blockIdx.x; part < parts; part += gridDim.x) {
		double sum = 0;
		for (size_t i = (size_t)part * TRAIN_THREADS + threadIdx.x; i < count;
			i += (size_t)parts * TRAIN_THREADS)
			sum += (double)values[i] * values[i];
		sum = block_sum(sum);
		if (threadIdx.x == 0)
			sums[part] = sum;
	}
}

/* One block: *sum += the sum of sums[parts]. */
extern "C" __global__ void train_square_sum(int parts, const double *sums, double *sum)
{
	double total = 0;

	for (int part = threadIdx.x; part < parts; part += TRAIN_THREADS)
		total += sums[part];
	total = block_sum(total);
	if (threadIdx.x == 0)
		*sum += total;
}

extern "C" __global__ void train_clip_factor(
	const double *square_sum, float max_norm, float unscale, float *factor)
{
	double norm = unscale * sqrt(*square_sum);

	if (first())
		return;
	if (!isfinite(norm))
		*factor = NAN;
	else if (max_norm > 0 && norm + 1e-6 > max_norm)
		*factor = (float)(unscale * (max_norm / (norm + 1e-6)));
	else
		*factor = unscale;
}

extern "C" __global__ void train_sgd(struct sgd sgd, size_t count, const float *grad,
	const float *factor, float *value, float *momentum)
{
	float scale = factor ? *factor : 1;
	float keep = sgd.first ? 0 : sgd.momentum;
	float direct = sgd.nesterov, through = sgd.nesterov ? sgd.momentum : 1;

	if (isnan(scale))
		return;
	for (size_t i = first(); i < count; i += stride()) {
		float slope = scale * grad[i] + sgd.weight_decay * value[i];
		if (momentum) {
			momentum[i] = keep * momentum[i] + slope;
			slope = direct * slope + through * momentum[i];
		}
		value[i] -= sgd.rate * slope;
	}
}

/* rate, root: the step's rate and the factor of the square root, both with Adam's correction. */
extern "C" __global__ void train_adam(struct adam adam, float rate, float root, size_t count,
	const float *grad, const float *factor, float *value, float *mean, float *square)
{
	float scale = factor ? *factor : 1, beta1 = adam.beta1, beta2 = adam.beta2;
	float coupled = adam.decoupled ? 0 : adam.weight_decay;
	float keep = adam.decoupled ? 1 - adam.rate * adam.weight_decay : 1;

	if (isnan(scale))
		return;
	for (size_t i = first(); i < count; i += stride()) {
		float slope = scale * grad[i] + coupled * value[i];
		mean[i] = beta1 * mean[i] + (1 - beta1) * slope;
		square[i] = beta2 * square[i] + (1 - beta2) * slope * slope;
		value[i] =
			keep * value[i] - rate * mean[i] / (sqrtf(square[i]) * root + adam.epsilon);
	}
}

extern "C" __global__ void train_narrow(size_t count, const float *from, bool bf16, uint16_t *to)
{
	for (size_t i = first(); i < count; i += stride())
		to[i] = bf16 ? bf16_of(from[i]) : f16_of(from[i]);
}

extern "C" __global__ void train_widen(size_t count, const uint16_t *from, bool bf16, float *to)
{
	for (size_t i = first(); i < count; i += stride())
		to[i] = bf16 ? f32_of_bf16(from[i]) : f32_of_f16(from[i]);
}
