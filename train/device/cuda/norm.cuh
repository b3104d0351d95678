/* Batch norm. A block takes a plane: a channel of an image. */

/*
 * parts[part][2 * channels]: the sums of both values of a channel's elements, over images part,
 * part + part_count, ...
 */
template <typename Values>
static __device__ void add_planes(
	const struct planes &shape, int part_count, double *parts, const Values &values)
{
	int size = shape.rows * shape.columns;

	for (int job = blockIdx.x; job < shape.channels * part_count; job += gridDim.x) {
		int channel = job % shape.channels, part = job / shape.channels;
		double sums[2] = { 0, 0 };
		for (int n = part; n < shape.batch; n += part_count) {
			size_t plane = (size_t)n * shape.channels + channel;
			for (int i = threadIdx.x; i < size; i += TRAIN_THREADS)
				values(channel, plane * size + i, sums);
		}
		double *to = parts + (size_t)part * 2 * shape.channels + channel;
		for (int s = 0; s < 2; s++) {
			double sum = block_sum(sums[s]);
			if (threadIdx.x == 0)
				to[s * shape.channels] = sum;
		}
	}
}

struct plain {
	const float *in;

	__device__ void operator()(int, size_t at, double *sums) const
	{
		sums[0] += in[at];
	}
};

struct squared {
	const float *in;

	__device__ void operator()(int, size_t at, double *sums) const
	{
		sums[0] += in[at];
		sums[1] += (double)in[at] * in[at];
	}
};

/* out_grad counts where ReLU let the output through. */
static __device__ float through_relu(bool relu, const float *out, const float *out_grad, size_t at)
{
	return !relu || out[at] > 0 ? out_grad[at] : 0;
}

struct norm_gradient {
	struct norm norm;
	const float *in, *out, *out_grad, *saved;

	__device__ void operator()(int channel, size_t at, double *sums) const
	{
		float slope = through_relu(norm.relu, out, out_grad, at);
		sums[0] += slope;
		sums[1] += (double)slope *
			   ((in[at] - saved[channel]) * saved[norm.shape.channels + channel]);
	}
};

extern "C" __global__ void train_plane_sums(
	struct planes shape, int part_count, const float *in, double *parts)
{
	add_planes(shape, part_count, parts, plain{ in });
}

extern "C" __global__ void train_norm_sums(
	struct planes shape, int part_count, const float *in, double *parts)
{
	add_planes(shape, part_count, parts, squared{ in });
}

extern "C" __global__ void train_norm_grad_sums(struct norm norm, int part_count, const float *in,
	const float *out, const float *out_grad, const float *saved, double *parts)
{
	add_planes(norm.shape, part_count, parts, norm_gradient{ norm, in, out, out_grad, saved });
}

/* sums[count] = the sum of parts[part_count][count] */
extern "C" __global__ void train_part_sums(
	int part_count, int count, const double *parts, double *sums)
{
	for (size_t i = first(); i < (size_t)count; i += stride()) {
		double sum = 0;
		for (int part = 0; part < part_count; part++)
			sum += parts[(size_t)part * count + i];
		sums[i] = sum;
	}
}

extern "C" __global__ void train_norm_moments(struct norm norm, const double *sums, double count,
	float momentum, float *saved, float *running_mean, float *running_variance)
{
	int channels = norm.shape.channels;

	for (size_t c = first(); c < (size_t)channels; c += stride()) {
		double mean = sums[c] / count;
		double variance = sums[channels + c] / count - mean * mean;
		variance = variance > 0 ? variance : 0; /* rounding may make it less */
		double unbiased = variance * count / (count - 1);
		saved[c] = (float)mean;
		saved[channels + c] = (float)(1 / sqrt(variance + norm.epsilon));
		if (!running_mean)
			continue;
		running_mean[c] += momentum * ((float)mean - running_mean[c]);
		running_variance[c] += momentum * ((float)unbiased - running_variance[c]);
	}
}

extern "C" __global__ void train_norm_fixed(
	struct norm norm, const float *running_mean, const float *running_variance, float *saved)
{
	int channels = norm.shape.channels;

	for (size_t c = first(); c < (size_t)channels; c += stride()) {
		saved[c] = running_mean[c];
		saved[channels + c] = 1 / sqrtf(running_variance[c] + norm.epsilon);
	}
}

extern "C" __global__ void train_norm(struct norm norm, const float *in, const float *saved,
	const float *weight, const float *bias, float *out)
{
	int channels = norm.shape.channels, size = norm.shape.rows * norm.shape.columns;

	for (size_t plane = blockIdx.x; plane < (size_t)norm.shape.batch * channels;
		plane += gridDim.x) {
		int c = plane % channels;
		float mean = saved[c], gain = saved[channels + c] * weight[c], shift = bias[c];
		for (int i = threadIdx.x; i < size; i += TRAIN_THREADS) {
			float value = (in[plane * size + i] - mean) * gain + shift;
			out[plane * size + i] = norm.relu && value < 0 ? 0 : value;
		}
	}
}

extern "C" __global__ void train_norm_weight_grad(
	struct norm norm, const double *sums, float *weight_grad, float *bias_grad)
{
	int channels = norm.shape.channels;

	for (size_t c = first(); c < (size_t)channels; c += stride()) {
		bias_grad[c] = (float)sums[c];
		if (weight_grad)
			weight_grad[c] = (float)sums[channels + c];
	}
}

extern "C" __global__ void train_norm_in_grad(struct norm norm, const float *in, const float *out,
	const float *out_grad, const float *saved, const float *weight, const double *sums,
	double count, float *in_grad)
{
	int channels = norm.shape.channels, size = norm.shape.rows * norm.shape.columns;

	for (size_t plane = blockIdx.x; plane < (size_t)norm.shape.batch * channels;
		plane += gridDim.x) {
		int c = plane % channels;
		float mean = saved[c], inverse = saved[channels + c], gain = inverse * weight[c];
		float of_mean = (float)(sums[c] / count);
		float of_deviation = (float)(sums[channels + c] / count);
		for (int i = threadIdx.x; i < size; i += TRAIN_THREADS) {
			size_t at = plane * size + i;
			float slope = through_relu(norm.relu, out, out_grad, at);
			float normal = (in[at] - mean) * inverse;
			in_grad[at] = gain * (slope - of_mean - normal * of_deviation);
		}
	}
}
