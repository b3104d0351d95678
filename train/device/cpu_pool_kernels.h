/* Max-pooling of one plane, for a variant that defines the vectors (cpu_images_*.c). */

/* Keeps the largest, the first of equals. NaN counts as the largest, as in PyTorch. */
INLINE void keep_larger(floats candidate, int number, floats *best, integers *which)
{
	integers larger = (candidate > *best) | (candidate != candidate);
	*best = (floats)((larger & (integers)candidate) | (~larger & (integers)*best));
	*which = (larger & number) | (~larger & *which);
}

static void max_pool(int rows, int columns, const float *in, float *out, uint8_t *index)
{
	int out_columns = columns / 2;
	for (int y = 0; y < rows / 2; y++, in += 2 * columns)
		for (int x = 0, left; x < out_columns; x += WIDTH, out += left, index += left) {
			const float *top = in + 2 * x, *bottom = top + columns;
			int more = columns - 2 * x;
			floats a = load_left(top, more), b = load_left(top + WIDTH, more - WIDTH);
			floats c = load_left(bottom, more);
			floats d = load_left(bottom + WIDTH, more - WIDTH);
			floats best = even_of(a, b);
			integers which = { 0 };
			keep_larger(odd_of(a, b), 1, &best, &which);
			keep_larger(even_of(c, d), 2, &best, &which);
			keep_larger(odd_of(c, d), 3, &best, &which);
			left = clamp(out_columns - x);
			store_left(out, best, left);
			store_bytes(index, which, left);
		}
}

INLINE void spread_pair(floats grad, integers which, int number, float *to, int left)
{
	floats even = (floats)((which == number) & (integers)grad);
	floats odd = (floats)((which == number + 1) & (integers)grad);
	store_left(to, zip_first(even, odd), left);
	store_left(to + WIDTH, zip_second(even, odd), left - WIDTH);
}

static void max_pool_grad(
	int rows, int columns, const uint8_t *index, const float *out_grad, float *in_grad)
{
	int out_columns = columns / 2;
	for (int y = 0; y < rows / 2; y++, in_grad += 2 * columns) {
		for (int x = 0, left; x < out_columns;
			x += WIDTH, out_grad += left, index += left) {
			left = clamp(out_columns - x);
			floats grad = load_left(out_grad, left);
			integers which = load_bytes(index, left);
			int more = columns - 2 * x;
			spread_pair(grad, which, 0, in_grad + 2 * x, more);
			spread_pair(grad, which, 2, in_grad + columns + 2 * x, more);
		}
		if (columns % 2)
			in_grad[columns - 1] = in_grad[2 * columns - 1] = 0;
	}
	if (rows % 2)
		memset(in_grad, 0, columns * sizeof(float));
}
