/*
 * Convolution, for a variant that defines the vectors (cpu_images_*.c).
 *
 * A tile of sums lies in registers: some channels of the output by some vectors of its pixels, or,
 * for the gradient of the weights, by some rows of the kernel. Per element of the tile there is
 * one multiply-add a step; a step loads one vector or weight for each row and column of the tile.
 */

/* GCC keeps sums in registers where it unrolls all loops over them. */
#if defined(__clang__)
#define UNROLL
#else
#define UNROLL _Pragma("GCC unroll 8")
#endif

_Static_assert(CONV_CHANNELS <= 4 && CONV_VECTORS <= 4 && GRAD_CHANNELS <= 4 && GRAD_TAPS <= 5,
	"CONV_CASES and GRAD_CASES list no larger tiles");

/* The size of part p where n things make the fewest parts of at most `most`, nearly equal. */
INLINE int part_size(int n, int most, int p)
{
	int parts = (n + most - 1) / most;
	return n / parts + (p < n % parts);
}

INLINE void zero(float *to, size_t count)
{
	for (size_t i = 0; i < count; i += WIDTH)
		store(to + i, all(0));
}

/* A vector may write past the end of a row or border. Those behind it are written later. */
static void shift(const struct shifted *geometry, int channels, const float *in, float *shifted)
{
	const struct conv *shape = &geometry->shape;
	int columns = shape->columns, out_columns = geometry->out_columns;
	size_t border = (size_t)shape->padding * out_columns;
	for (; channels > 0; channels--, in += (size_t)shape->rows * columns)
		for (int x = 0; x < shape->kernel; x++, shifted += geometry->plane) {
			float *body = shifted + border;
			int skip = x - shape->padding; /* columns of the input, to the left */
			zero(shifted, border);
			for (int i = (out_columns - 1) / WIDTH * WIDTH; i >= 0; i -= WIDTH) {
				int first = clamp(-skip - i), end = clamp(columns - skip - i);
				const float *from = in + skip + i;
				for (int y = 0; y < shape->rows; y++)
					store(body + y * out_columns + i,
						load_part(from + y * columns, first, end));
			}
			zero(body + (size_t)shape->rows * out_columns, border + WIDTH);
		}
}

/* channels * vectors sums; both are constants where this is inlined. `left`: pixels from here. */
INLINE void conv_tile(int channels, int vectors, const struct shifted *geometry,
	const float *shifted, const float *weight, const float *bias, float *out, int left)
{
	const struct conv *shape = &geometry->shape;
	int kernel = shape->kernel;
	size_t weights = (size_t)shape->in_channels * kernel * kernel; /* of one output channel */
	floats sums[CONV_CHANNELS][CONV_VECTORS];
	for (int c = 0; c < channels; c++)
		for (int v = 0; v < vectors; v++)
			sums[c][v] = all(bias ? bias[c] : 0);
	for (int i = 0; i < shape->in_channels; i++, shifted += kernel * geometry->plane)
		for (int y = 0; y < kernel; y++)
			for (int x = 0; x < kernel; x++, weight++) {
				const float *from =
					shifted + x * geometry->plane + y * geometry->out_columns;
				floats in[CONV_VECTORS];
				for (int v = 0; v < vectors; v++)
					in[v] = keep(load(from + v * WIDTH));
				for (int c = 0; c < channels; c++)
					for (int v = 0; v < vectors; v++)
						sums[c][v] = multiply_add(all(weight[c * weights]),
							in[v], sums[c][v]);
			}
	for (int c = 0; c < channels; c++)
		for (int v = 0; v < vectors; v++) {
			float *to = out + (size_t)c * geometry->out_pixels + v * WIDTH;
			store_left(to, sums[c][v], left - v * WIDTH);
		}
}

#define CONV_CASE(c, v) \
	case (c)*8 + (v): \
		if ((c) <= CONV_CHANNELS && (v) <= CONV_VECTORS) \
			conv_tile(c, v, geometry, from, weights, biases, to, \
				pixels - start * WIDTH); \
		break
#define CONV_CASES(c) \
	CONV_CASE(c, 1); \
	CONV_CASE(c, 2); \
	CONV_CASE(c, 3); \
	CONV_CASE(c, 4)

/* All channels of a vector tile follow one another: their input stays in the first cache. */
static void conv(const struct shifted *geometry, const float *shifted, const float *weight,
	const float *bias, float *out)
{
	const struct conv *shape = &geometry->shape;
	int pixels = geometry->out_pixels, all_vectors = (pixels + WIDTH - 1) / WIDTH;
	size_t each = (size_t)shape->in_channels * shape->kernel * shape->kernel;
	for (int start = 0, vectors, p = 0; start < all_vectors; start += vectors, p++) {
		vectors = part_size(all_vectors, CONV_VECTORS, p);
		const float *from = shifted + start * WIDTH;
		for (int c = 0, channels, q = 0; c < shape->out_channels; c += channels, q++) {
			channels = part_size(shape->out_channels, CONV_CHANNELS, q);
			const float *weights = weight + c * each, *biases = bias ? bias + c : NULL;
			float *to = out + (size_t)c * pixels + start * WIDTH;
			switch (channels * 8 + vectors) {
				CONV_CASES(1);
				CONV_CASES(2);
				CONV_CASES(3);
				CONV_CASES(4);
			}
		}
	}
}

static void channel_sums(int channels, int pixels, const float *image, float *sums)
{
	for (int c = 0; c < channels; c++, image += pixels) {
		floats sum = all(0);
		for (int i = 0; i < pixels; i += WIDTH)
			sum = add(sum, load_left(image + i, pixels - i));
		sums[c] += sum_of(sum);
	}
}

/* Sums of `channels` channels of the gradient by `taps` rows of one column of the kernel. */
INLINE void grad_tile(int channels, int taps, const struct shifted *geometry, int images,
	const float *shifted, const float *out_grad, float *weight_grad)
{
	const struct conv *shape = &geometry->shape;
	int pixels = geometry->out_pixels, kernel = shape->kernel;
	size_t weights = (size_t)shape->in_channels * kernel * kernel;
	floats sums[GRAD_CHANNELS][GRAD_TAPS];
	UNROLL
	for (int c = 0; c < channels; c++) {
		UNROLL
		for (int t = 0; t < taps; t++)
			sums[c][t] = all(0);
	}
	for (int n = 0; n < images; n++) {
		for (int i = 0; i < pixels; i += WIDTH) {
			floats grad[GRAD_CHANNELS];
			UNROLL
			for (int c = 0; c < channels; c++)
				grad[c] = keep(
					load_left(out_grad + (size_t)c * pixels + i, pixels - i));
			UNROLL
			for (int t = 0; t < taps; t++) {
				floats in = keep(load(shifted + t * geometry->out_columns + i));
				UNROLL
				for (int c = 0; c < channels; c++)
					sums[c][t] = multiply_add(grad[c], in, sums[c][t]);
			}
		}
		shifted += kernel * geometry->plane;
		out_grad += (size_t)shape->out_channels * pixels;
	}
	UNROLL
	for (int c = 0; c < channels; c++) {
		UNROLL
		for (int t = 0; t < taps; t++)
			weight_grad[c * weights + t * kernel] += sum_of(sums[c][t]);
	}
}

#define GRAD_CASE(c, t) \
	case (c)*8 + (t): \
		if ((c) <= GRAD_CHANNELS && (t) <= GRAD_TAPS) \
			grad_tile(c, t, geometry, images, from, grad, to); \
		break
#define GRAD_CASES(c) \
	GRAD_CASE(c, 1); \
	GRAD_CASE(c, 2); \
	GRAD_CASE(c, 3); \
	GRAD_CASE(c, 4); \
	GRAD_CASE(c, 5)

static void conv_weight_grad(const struct shifted *geometry, int images, const float *shifted,
	const float *out_grad, float *weight_grad)
{
	const struct conv *shape = &geometry->shape;
	int kernel = shape->kernel;
	size_t each = (size_t)shape->in_channels * kernel * kernel;
	for (int c = 0, channels, p = 0; c < shape->out_channels; c += channels, p++) {
		channels = part_size(shape->out_channels, GRAD_CHANNELS, p);
		const float *grad = out_grad + (size_t)c * geometry->out_pixels;
		for (int x = 0; x < kernel; x++)
			for (int y = 0, taps, q = 0; y < kernel; y += taps, q++) {
				taps = part_size(kernel, GRAD_TAPS, q);
				const float *from =
					shifted + x * geometry->plane + y * geometry->out_columns;
				float *to = weight_grad + c * each + y * kernel + x;
				switch (channels * 8 + taps) {
					GRAD_CASES(1);
					GRAD_CASES(2);
					GRAD_CASES(3);
					GRAD_CASES(4);
				}
			}
	}
}
