/* Rows and elements. */

/* c = beta c, of `batch` matrices [rows][columns]: a product that adds up nothing. */
extern "C" __global__ void train_scale_matrices(
	int batch, int rows, int columns, int pitch, size_t step, float beta, float *c)
{
	for (size_t job = blockIdx.x; job < (size_t)batch * rows; job += gridDim.x) {
		float *row = c + job / rows * step + job % rows * pitch; /* [columns] */
		for (int i = threadIdx.x; i < columns; i += TRAIN_THREADS)
			row[i] = beta == 0 ? 0 : beta * row[i];
	}
}

/* Rounds `batch` stored matrices [rows][columns] to halves [batch][rows][to_pitch]; the rest of a
   row is 0. */
extern "C" __global__ void train_pack(int batch, int rows, int columns, int pitch, size_t step,
	const float *from, int to_pitch, bool bf16, uint16_t *to)
{
	for (size_t job = blockIdx.x; job < (size_t)batch * rows; job += gridDim.x) {
		const float *row = from + job / rows * step + job % rows * pitch; /* [columns] */
		for (int i = threadIdx.x; i < to_pitch; i += TRAIN_THREADS) {
			float value = i < columns ? row[i] : 0;
			to[job * to_pitch + i] = bf16 ? bf16_of(value) : f16_of(value);
		}
	}
}

/* One block for each row. */
extern "C" __global__ void train_spread(int rows, int columns, const float *row, float *out)
{
	for (int r = blockIdx.x; r < rows; r += gridDim.x)
		for (int c = threadIdx.x; c < columns; c += TRAIN_THREADS)
			out[(size_t)r * columns + c] = row[c];
}

struct element {
	const float *in;
	int columns;

	__device__ float operator()(int row, int column) const
	{
		return in[(size_t)row * columns + column];
	}
};

extern "C" __global__ void train_column_sums(
	int rows, int columns, int rows_a_part, const float *in, float *sums)
{
	add_columns(rows, columns, rows_a_part, sums, element{ in, columns });
}

extern "C" __global__ void train_add(size_t count, const float *a, const float *b, float *out)
{
	for (size_t i = first(); i < count; i += stride())
		out[i] = a[i] + b[i];
}

extern "C" __global__ void train_scale(size_t count, float factor, float *values)
{
	for (size_t i = first(); i < count; i += stride())
		values[i] *= factor;
}

extern "C" __global__ void train_relu(size_t count, const float *in, float *out)
{
	for (size_t i = first(); i < count; i += stride())
		out[i] = in[i] < 0 ? 0 : in[i]; /* a NaN stays one */
}

extern "C" __global__ void train_relu_grad(
	size_t count, const float *out, const float *out_grad, float *in_grad)
{
	for (size_t i = first(); i < count; i += stride())
		in_grad[i] = out[i] > 0 ? out_grad[i] : 0;
}

/* gelu(x) = x / 2 (1 + tanh(slope (x + cubic x^3))), slope = sqrt(2 / pi) */
#define GELU_SLOPE 0.7978845608028654f
#define GELU_CUBIC 0.044715f

extern "C" __global__ void train_gelu(size_t count, const float *in, float *out)
{
	for (size_t i = first(); i < count; i += stride()) {
		float x = in[i];
		float t = tanhf(GELU_SLOPE * (x + GELU_CUBIC * x * x * x));
		out[i] = 0.5f * x * (1 + t);
	}
}

extern "C" __global__ void train_gelu_grad(
	size_t count, const float *in, const float *out_grad, float *in_grad)
{
	for (size_t i = first(); i < count; i += stride()) {
		float x = in[i];
		float t = tanhf(GELU_SLOPE * (x + GELU_CUBIC * x * x * x));
		float inner = GELU_SLOPE * (1 + 3 * GELU_CUBIC * x * x);
		in_grad[i] = out_grad[i] * 0.5f * (1 + t + x * (1 - t * t) * inner);
	}
}
