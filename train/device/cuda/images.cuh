/* Convolution around cuBLAS's products, and pooling. A block takes a plane, or a row of columns. */

static __device__ int out_rows(const struct conv &conv)
{
	return conv.rows + 2 * conv.padding - conv.kernel + 1;
}

static __device__ int out_columns(const struct conv &conv)
{
	return conv.columns + 2 * conv.padding - conv.kernel + 1;
}

/* columns[image][in_channels * kernel * kernel][out_rows * out_columns]: for every weight of an
   output channel, the elements that it multiplies. */
extern "C" __global__ void train_im2col(
	struct conv conv, int images, const float *in, float *columns)
{
	int kernel = conv.kernel, wide = out_columns(conv), area = out_rows(conv) * wide;
	int depth = conv.in_channels * kernel * kernel;

	for (size_t job = blockIdx.x; job < (size_t)images * depth; job += gridDim.x) {
		int k = job % depth, down = k / kernel % kernel, right = k % kernel;
		size_t plane = job / depth * conv.in_channels + k / (kernel * kernel);
		const float *from = in + plane * conv.rows * conv.columns;
		for (int i = threadIdx.x; i < area; i += TRAIN_THREADS) {
			int y = i / wide + down - conv.padding, x = i % wide + right - conv.padding;
			bool inside = y >= 0 && y < conv.rows && x >= 0 && x < conv.columns;
			columns[job * area + i] = inside ? from[y * conv.columns + x] : 0;
		}
	}
}

/* The gradient of an element of the input: the sum over the columns that hold it. */
extern "C" __global__ void train_col2im(
	struct conv conv, int images, const float *columns, float *in_grad)
{
	int kernel = conv.kernel, high = out_rows(conv), wide = out_columns(conv);
	int size = conv.rows * conv.columns;

	for (size_t plane = blockIdx.x; plane < (size_t)images * conv.in_channels;
		plane += gridDim.x) {
		const float *from = columns + plane * kernel * kernel * high * wide;
		for (int i = threadIdx.x; i < size; i += TRAIN_THREADS) {
			int top = i / conv.columns + conv.padding;
			int left = i % conv.columns + conv.padding;
			float sum = 0;
			for (int k = 0; k < kernel * kernel; k++) {
				int y = top - k / kernel, x = left - k % kernel;
				if (y >= 0 && y < high && x >= 0 && x < wide)
					sum += from[((size_t)k * high + y) * wide + x];
			}
			in_grad[plane * size + i] = sum;
		}
	}
}

/* out[planes][area] = bias[plane % channels] */
extern "C" __global__ void train_conv_bias(
	size_t planes, int channels, int area, const float *bias, float *out)
{
	for (size_t plane = blockIdx.x; plane < planes; plane += gridDim.x)
		for (int i = threadIdx.x; i < area; i += TRAIN_THREADS)
			out[plane * area + i] = bias[plane % channels];
}

/* grad[count] += the sum of images' gradients[images][count]. */
extern "C" __global__ void train_conv_weight_grad(
	int images, size_t count, const float *gradients, float *grad)
{
	for (size_t i = first(); i < count; i += stride()) {
		float sum = 0;
		for (int n = 0; n < images; n++)
			sum += gradients[n * count + i];
		grad[i] += sum;
	}
}

/* ---- Max-pooling of 2 x 2 ---- */

extern "C" __global__ void train_max_pool(
	struct planes shape, const float *in, float *out, uint8_t *index)
{
	int wide = shape.columns / 2, size = shape.rows / 2 * wide;

	for (size_t plane = blockIdx.x; plane < (size_t)shape.batch * shape.channels;
		plane += gridDim.x) {
		const float *from = in + plane * shape.rows * shape.columns;
		for (int i = threadIdx.x; i < size; i += TRAIN_THREADS) {
			const float *square = from + i / wide * 2 * shape.columns + i % wide * 2;
			uint8_t best = 0;
			float top = square[0];
			for (int k = 1; k < 4; k++) {
				float value = square[k / 2 * shape.columns + k % 2];
				if (value > top || (isnan(value) && !isnan(top))) {
					top = value;
					best = k;
				}
			}
			out[plane * size + i] = top;
			index[plane * size + i] = best;
		}
	}
}

extern "C" __global__ void train_max_pool_grad(
	struct planes shape, const uint8_t *index, const float *out_grad, float *in_grad)
{
	int high = shape.rows / 2, wide = shape.columns / 2, size = shape.rows * shape.columns;

	for (size_t plane = blockIdx.x; plane < (size_t)shape.batch * shape.channels;
		plane += gridDim.x)
		for (int i = threadIdx.x; i < size; i += TRAIN_THREADS) {
			int y = i / shape.columns, x = i % shape.columns;
			size_t from = (plane * high + y / 2) * wide + x / 2;
			bool pooled = y / 2 < high && x / 2 < wide;
			bool chosen = pooled && index[from] == y % 2 * 2 + x % 2;
			in_grad[plane * size + i] = chosen ? out_grad[from] : 0;
		}
}
