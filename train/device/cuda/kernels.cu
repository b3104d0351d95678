/*
 * The small kernels of training (train/device.h); cuBLAS does matrix products. Threads stride over
 * the elements, in a grid of any size. Sums have the same order in every run.
 */
#include <stddef.h>
#include <stdint.h>

#include "train/device/cuda/kernels.h"
#include "train/device/shapes.h"

static __device__ size_t first()
{
	return (size_t)blockIdx.x * TRAIN_THREADS + threadIdx.x;
}

static __device__ size_t stride()
{
	return (size_t)gridDim.x * TRAIN_THREADS;
}

/* ---- Layers ---- */

/* One block for each row. */
extern "C" __global__ void train_spread(int rows, int columns, const float *row, float *out)
{
	for (int r = blockIdx.x; r < rows; r += gridDim.x)
		for (int c = threadIdx.x; c < columns; c += TRAIN_THREADS)
			out[(size_t)r * columns + c] = row[c];
}

/* Lane l of a column adds up rows l, l + lanes, ...; lane 0 then adds up the lanes. */
extern "C" __global__ void train_column_sums(int rows, int columns, const float *in, float *sums)
{
	__shared__ float partial[TRAIN_SUM_LANES][TRAIN_SUM_COLUMNS];
	int lane = threadIdx.x / TRAIN_SUM_COLUMNS, at = threadIdx.x % TRAIN_SUM_COLUMNS;

	for (int left = blockIdx.x * TRAIN_SUM_COLUMNS; left < columns;
		left += gridDim.x * TRAIN_SUM_COLUMNS) {
		int column = left + at;
		float sum = 0;
		for (int r = lane; column < columns && r < rows; r += TRAIN_SUM_LANES)
			sum += in[(size_t)r * columns + column];
		partial[lane][at] = sum;
		__syncthreads();
		for (int l = 1; lane == 0 && l < TRAIN_SUM_LANES; l++)
			sum += partial[l][at];
		if (lane == 0 && column < columns)
			sums[column] = sum;
		__syncthreads();
	}
}

extern "C" __global__ void train_relu(size_t count, const float *in, float *out)
{
	for (size_t i = first(); i < count; i += stride())
		out[i] = in[i] > 0 ? in[i] : 0;
}

extern "C" __global__ void train_relu_grad(
	size_t count, const float *out, const float *out_grad, float *in_grad)
{
	for (size_t i = first(); i < count; i += stride())
		in_grad[i] = out[i] > 0 ? out_grad[i] : 0;
}

/* ---- Softmax cross-entropy: a thread a row, whose columns are few ---- */

static __device__ int largest(const float *logits /* [columns] */, int columns)
{
	int best = 0;
	for (int c = 1; c < columns; c++)
		if (logits[c] > logits[best])
			best = c;
	return best;
}

/* log(sum of exp(logit)), safe from overflow: the largest exponent is 0. */
static __device__ double log_sum_exp(const float *logits /* [columns] */, int columns)
{
	double top = logits[largest(logits, columns)], sum = 0;
	for (int c = 0; c < columns; c++)
		sum += exp(logits[c] - top);
	return top + log(sum);
}

/* One block: each thread adds its rows, then half of the threads adds the other half's sums. */
extern "C" __global__ void train_loss(
	int rows, int columns, const float *logits, const int32_t *labels, double *sums)
{
	__shared__ double losses[TRAIN_THREADS], hits[TRAIN_THREADS];
	int thread = threadIdx.x;
	double loss = 0, hit = 0;

	for (int r = thread; r < rows; r += TRAIN_THREADS) {
		const float *row = logits + (size_t)r * columns; /* [columns] */
		loss += log_sum_exp(row, columns) - row[labels[r]];
		hit += largest(row, columns) == labels[r];
	}
	losses[thread] = loss;
	hits[thread] = hit;
	for (int half = TRAIN_THREADS / 2; half > 0; half /= 2) {
		__syncthreads();
		if (thread < half) {
			losses[thread] += losses[thread + half];
			hits[thread] += hits[thread + half];
		}
	}
	if (thread == 0) {
		sums[0] = losses[0];
		sums[1] = hits[0];
	}
}

extern "C" __global__ void train_loss_grad(
	int rows, int columns, const float *logits, const int32_t *labels, float scale, float *grad)
{
	for (size_t r = first(); r < (size_t)rows; r += stride()) {
		const float *row = logits + r * columns; /* [columns] */
		double norm = log_sum_exp(row, columns);
		for (int c = 0; c < columns; c++)
			grad[r * columns + c] =
				scale * (float)(exp(row[c] - norm) - (c == labels[r]));
	}
}

/* ---- Optimizer ---- */

/* As cpu_sgd() does it. */
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
