/* Embeddings, layer norm and attention's softmax. A block takes a row. */

extern "C" __global__ void train_embed(struct embedding shape, const int32_t *tokens,
	const float *token_table, const float *position_table, float *out)
{
	for (int r = blockIdx.x; r < shape.rows; r += gridDim.x) {
		const float *token = token_table + (size_t)tokens[r] * shape.width;
		const float *position =
			position_table + (size_t)(r % shape.positions) * shape.width;
		for (int c = threadIdx.x; c < shape.width; c += TRAIN_THREADS)
			out[(size_t)r * shape.width + c] = token[c] + position[c];
	}
}

/*
 * Sorts the rows by token, and rows of a token by number: order[rows]. counts[rows], beside the
 * first row of a token: its number of rows; else 0. Each thread counts for one row: no atomics.
 */
extern "C" __global__ void train_embed_order(
	int rows, const int32_t *tokens, int32_t *order, int32_t *counts)
{
	for (size_t r = first(); r < (size_t)rows; r += stride()) {
		int32_t mine = tokens[r], smaller = 0, before = 0, equal = 0;
		for (int s = 0; s < rows; s++) {
			smaller += tokens[s] < mine;
			equal += tokens[s] == mine;
			before += tokens[s] == mine && (size_t)s < r;
		}
		order[smaller + before] = (int32_t)r;
		counts[smaller + before] = before ? 0 : equal;
	}
}

/* token_grad[token] += the rows of each token, column by column. A block takes some columns of one
   token; its lanes share the rows. */
extern "C" __global__ void train_embed_token_grad(struct embedding shape, const int32_t *tokens,
	const int32_t *order, const int32_t *counts, const float *out_grad, float *token_grad)
{
	__shared__ float partial[TRAIN_SUM_LANES][TRAIN_SUM_COLUMNS];
	int lane = threadIdx.x / TRAIN_SUM_COLUMNS, at = threadIdx.x % TRAIN_SUM_COLUMNS;
	int groups = (shape.width + TRAIN_SUM_COLUMNS - 1) / TRAIN_SUM_COLUMNS;

	for (size_t job = blockIdx.x; job < (size_t)shape.rows * groups; job += gridDim.x) {
		int begin = job / groups, count = counts[begin];
		int column = job % groups * TRAIN_SUM_COLUMNS + at;
		float sum = 0;
		if (count == 0)
			continue;
		for (int i = lane; column < shape.width && i < count; i += TRAIN_SUM_LANES)
			sum += out_grad[(size_t)order[begin + i] * shape.width + column];
		partial[lane][at] = sum;
		__syncthreads();
		for (int l = 1; lane == 0 && l < TRAIN_SUM_LANES; l++)
			sum += partial[l][at];
		if (lane == 0 && column < shape.width)
			token_grad[(size_t)tokens[order[begin]] * shape.width + column] += sum;
		__syncthreads();
	}
}

extern "C" __global__ void train_embed_position_grad(
	struct embedding shape, const float *out_grad, float *position_grad)
{
	for (int p = blockIdx.x; p < shape.positions; p += gridDim.x)
		for (int c = threadIdx.x; c < shape.width; c += TRAIN_THREADS) {
			float sum = 0;
			for (int r = p; r < shape.rows; r += shape.positions)
				sum += out_grad[(size_t)r * shape.width + c];
			position_grad[(size_t)p * shape.width + c] = sum;
		}
}

/* ---- Layer norm ---- */

/* The variance is the mean square of the deviations, not a difference of large sums. */
extern "C" __global__ void train_layer_norm(struct layer_norm norm, const float *in,
	const float *weight, const float *bias, float *saved, float *out)
{
	int columns = norm.columns;

	for (int r = blockIdx.x; r < norm.rows; r += gridDim.x) {
		const float *row = in + (size_t)r * columns;
		float sum = 0, squares = 0;
		for (int c = threadIdx.x; c < columns; c += TRAIN_THREADS)
			sum += row[c];
		float mean = block_sum(sum) / columns;
		for (int c = threadIdx.x; c < columns; c += TRAIN_THREADS)
			squares += (row[c] - mean) * (row[c] - mean);
		float inverse = 1 / sqrtf(block_sum(squares) / columns + norm.epsilon);
		for (int c = threadIdx.x; c < columns; c += TRAIN_THREADS)
			out[(size_t)r * columns + c] =
				(row[c] - mean) * inverse * weight[c] + bias[c];
		if (threadIdx.x == 0) {
			saved[r] = mean;
			saved[norm.rows + r] = inverse;
		}
	}
}

/* out_grad times the normalised input. */
struct normalised_slope {
	struct layer_norm norm;
	const float *in, *saved, *out_grad;

	__device__ float operator()(int row, int column) const
	{
		size_t at = (size_t)row * norm.columns + column;
		return out_grad[at] * ((in[at] - saved[row]) * saved[norm.rows + row]);
	}
};

extern "C" __global__ void train_layer_norm_weight_grad(struct layer_norm norm, int rows_a_part,
	const float *in, const float *saved, const float *out_grad, float *sums)
{
	add_columns(norm.rows, norm.columns, rows_a_part, sums,
		normalised_slope{ norm, in, saved, out_grad });
}

extern "C" __global__ void train_layer_norm_in_grad(struct layer_norm norm, const float *in,
	const float *saved, const float *weight, const float *out_grad, float *in_grad)
{
	int columns = norm.columns;

	for (int r = blockIdx.x; r < norm.rows; r += gridDim.x) {
		size_t row = (size_t)r * columns;
		float mean = saved[r], inverse = saved[norm.rows + r], slopes = 0, products = 0;
		for (int c = threadIdx.x; c < columns; c += TRAIN_THREADS) {
			float slope = out_grad[row + c] * weight[c];
			slopes += slope;
			products += slope * ((in[row + c] - mean) * inverse);
		}
		slopes = block_sum(slopes) / columns;
		products = block_sum(products) / columns;
		for (int c = threadIdx.x; c < columns; c += TRAIN_THREADS) {
			float normal = (in[row + c] - mean) * inverse;
			in_grad[row + c] = inverse * (out_grad[row + c] * weight[c] - slopes -
							     normal * products);
		}
	}
}

/* ---- Softmax of attention ---- */

extern "C" __global__ void train_causal_softmax(int matrices, int size, float scale, float *scores)
{
	for (size_t job = blockIdx.x; job < (size_t)matrices * size; job += gridDim.x) {
		float *row = scores + job * size; /* [size] */
		int seen = job % size + 1;
		float sum = 0;
		float top = block_top(row, seen).value;
		for (int c = threadIdx.x; c < seen; c += TRAIN_THREADS) {
			row[c] = expf(scale * (row[c] - top));
			sum += row[c];
		}
		float share = 1 / block_sum(sum);
		for (int c = threadIdx.x; c < size; c += TRAIN_THREADS)
			row[c] = c < seen ? row[c] * share : 0;
	}
}

extern "C" __global__ void train_causal_softmax_grad(
	int matrices, int size, float scale, const float *probabilities, float *grad)
{
	for (size_t job = blockIdx.x; job < (size_t)matrices * size; job += gridDim.x) {
		const float *row = probabilities + job * size; /* [size] */
		float *slope = grad + job * size; /* [size] */
		int seen = job % size + 1;
		float sum = 0;
		for (int c = threadIdx.x; c < seen; c += TRAIN_THREADS)
			sum += row[c] * slope[c];
		sum = block_sum(sum);
		for (int c = threadIdx.x; c < size; c += TRAIN_THREADS)
			slope[c] = c < seen ? scale * row[c] * (slope[c] - sum) : 0;
	}
}
