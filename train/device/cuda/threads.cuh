/* Threads of a grid, and sums over a block. */
#ifndef TRAIN_CUDA_THREADS_CUH
#define TRAIN_CUDA_THREADS_CUH

static __device__ size_t first()
{
	return (size_t)blockIdx.x * TRAIN_THREADS + threadIdx.x;
}

static __device__ size_t stride()
{
	return (size_t)gridDim.x * TRAIN_THREADS;
}

/* The sum over the threads of the block, in all of them. Each round adds one half to the other. */
template <typename T> static __device__ T block_sum(T value)
{
	__shared__ T partial[TRAIN_THREADS];
	unsigned thread = threadIdx.x;

	__syncthreads(); /* the last sum has been read */
	partial[thread] = value;
	for (unsigned half = TRAIN_THREADS / 2; half > 0; half /= 2) {
		__syncthreads();
		if (thread < half)
			partial[thread] += partial[thread + half];
	}
	__syncthreads();
	return partial[0];
}

/* The largest of a row, and where: the first of equals. */
struct top {
	float value;
	int at;
};

static __device__ bool is_above(struct top a, struct top b)
{
	return a.value > b.value || (a.value == b.value && a.at < b.at);
}

/* That of row[count], in all threads of the block. */
static __device__ struct top block_top(const float *row, int count)
{
	__shared__ struct top partial[TRAIN_THREADS];
	unsigned thread = threadIdx.x;
	struct top top = { -INFINITY, count };

	if ((int)thread < count)
		top = { row[thread], (int)thread };
	for (int c = thread + TRAIN_THREADS; c < count; c += TRAIN_THREADS)
		if (row[c] > top.value)
			top = { row[c], c };
	__syncthreads();
	partial[thread] = top;
	for (unsigned half = TRAIN_THREADS / 2; half > 0; half /= 2) {
		__syncthreads();
		if (thread < half && is_above(partial[thread + half], partial[thread]))
			partial[thread] = partial[thread + half];
	}
	__syncthreads();
	return partial[0];
}

/*
 * sums[part][columns] = the sum of value(row, column) over the rows of a part, for all parts of
 * rows_a_part rows. Lane l of a column adds up rows l, l + lanes, ...; lane 0 adds up the lanes.
 */
template <typename Value>
static __device__ void add_columns(
	int rows, int columns, int rows_a_part, float *sums, const Value &value)
{
	__shared__ float partial[TRAIN_SUM_LANES][TRAIN_SUM_COLUMNS];
	int lane = threadIdx.x / TRAIN_SUM_COLUMNS, at = threadIdx.x % TRAIN_SUM_COLUMNS;
	int groups = (columns + TRAIN_SUM_COLUMNS - 1) / TRAIN_SUM_COLUMNS;
	int parts = rows > rows_a_part ? (rows + rows_a_part - 1) / rows_a_part : 1;

	for (int job = blockIdx.x; job < groups * parts; job += gridDim.x) {
		int part = job / groups, column = job % groups * TRAIN_SUM_COLUMNS + at;
		int begin = part * rows_a_part;
		int end = rows - begin < rows_a_part ? rows : begin + rows_a_part;
		float sum = 0;
		for (int r = begin + lane; column < columns && r < end; r += TRAIN_SUM_LANES)
			sum += value(r, column);
		partial[lane][at] = sum;
		__syncthreads();
		for (int l = 1; lane == 0 && l < TRAIN_SUM_LANES; l++)
			sum += partial[l][at];
		if (lane == 0 && column < columns)
			sums[(size_t)part * columns + column] = sum;
		__syncthreads();
	}
}

#endif
