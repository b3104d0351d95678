/* Batch norm of one plane, for a variant that defines the vectors (cpu_images_*.c). */

INLINE double sum_of_doubles(doubles a, doubles b)
{
	doubles both = a + b;
	double sum = 0;
	for (int i = 0; i < WIDTH / 2; i++)
		sum += both[i];
	return sum;
}

static void norm_sums(int count, const float *in, double *sums)
{
	doubles sum[2] = { 0 }, squares[2] = { 0 };
	for (int i = 0; i < count; i += WIDTH) {
		floats x = load_left(in + i, count - i);
		doubles low = low_half(x), high = high_half(x);
		sum[0] += low;
		sum[1] += high;
		squares[0] += low * low;
		squares[1] += high * high;
	}
	sums[0] += sum_of_doubles(sum[0], sum[1]);
	sums[1] += sum_of_doubles(squares[0], squares[1]);
}

static void norm(int count, const float *in, float scale, float shift, bool relu, float *out)
{
	for (int i = 0; i < count; i += WIDTH) {
		floats x = load_left(in + i, count - i);
		x = multiply_add(x, all(scale), all(shift));
		store_left(out + i, relu ? at_least_zero(x) : x, count - i);
	}
}

INLINE floats grad_at(int i, int count, const float *out, const float *out_grad)
{
	floats grad = load_left(out_grad + i, count - i);
	return out ? where_positive(load_left(out + i, count - i), grad) : grad;
}

static void norm_grad_sums(
	int count, const float *in, const float *out, const float *out_grad, double *sums)
{
	doubles sum[2] = { 0 }, products[2] = { 0 };
	for (int i = 0; i < count; i += WIDTH) {
		floats grad = grad_at(i, count, out, out_grad);
		floats x = load_left(in + i, count - i);
		doubles low = low_half(grad), high = high_half(grad);
		sum[0] += low;
		sum[1] += high;
		products[0] += low * low_half(x);
		products[1] += high * high_half(x);
	}
	sums[0] += sum_of_doubles(sum[0], sum[1]);
	sums[1] += sum_of_doubles(products[0], products[1]);
}

static void norm_in_grad(int count, const float *in, const float *out, const float *out_grad,
	float grad_factor, float in_factor, float shift, float *in_grad)
{
	for (int i = 0; i < count; i += WIDTH) {
		floats grad = grad_at(i, count, out, out_grad);
		floats x = load_left(in + i, count - i);
		x = multiply_add(x, all(in_factor), all(shift));
		store_left(in_grad + i, multiply_add(grad, all(grad_factor), x), count - i);
	}
}
