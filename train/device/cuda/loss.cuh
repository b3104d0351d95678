/* Softmax cross-entropy: a block takes a row, whose columns may be a vocabulary. */

/* log(sum of exp(logit)), in all threads of the block; safe from overflow, for the largest exponent
   is 0. */
static __device__ double log_sum_exp(const float *logits /* [columns] */, int columns, float top)
{
	double sum = 0;

	for (int c = threadIdx.x; c < columns; c += TRAIN_THREADS)
		sum += exp((double)logits[c] - top);
	return top + log(block_sum(sum));
}

/* losses[rows], then 1 or 0 for a row whose largest logit is at its label or elsewhere. */
extern "C" __global__ void train_loss_rows(
	int rows, int columns, const float *logits, const int32_t *labels, double *losses)
{
	for (int r = blockIdx.x; r < rows; r += gridDim.x) {
		const float *row = logits + (size_t)r * columns; /* [columns] */
		struct top top = block_top(row, columns);
		double norm = log_sum_exp(row, columns, top.value);
		if (threadIdx.x == 0) {
			losses[r] = norm - row[labels[r]];
			losses[rows + r] = top.at == labels[r];
		}
	}
}

/* One block: adds those of losses[2][rows] to sums[2]. */
extern "C" __global__ void train_loss(int rows, const double *losses, double *sums)
{
	for (int s = 0; s < 2; s++) {
		double sum = 0;
		for (int r = threadIdx.x; r < rows; r += TRAIN_THREADS)
			sum += losses[(size_t)s * rows + r];
		sum = block_sum(sum);
		if (threadIdx.x == 0)
			sums[s] += sum;
	}
}

extern "C" __global__ void train_loss_grad(
	int rows, int columns, const float *logits, const int32_t *labels, float scale, float *grad)
{
	for (int r = blockIdx.x; r < rows; r += gridDim.x) {
		const float *row = logits + (size_t)r * columns; /* [columns] */
		double norm = log_sum_exp(row, columns, block_top(row, columns).value);
		for (int c = threadIdx.x; c < columns; c += TRAIN_THREADS)
			grad[(size_t)r * columns + c] =
				scale * (float)(exp(row[c] - norm) - (c == labels[r]));
	}
}
