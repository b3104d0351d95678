/*
 * The loops of one variant (cpu_vectors.c includes them with VARIANT(name) defined), written for
 * the compiler's vectorisation. Sums have LANES partial sums, so that their order does not depend
 * on the width of vectors.
 */

#define LANES 16

/*
 * exp(x), with an error below 1e-7 of it: 2^n by the exponent's bits, and for the rest, within
 * ln(2) / 2, Cephes' polynomial (Moshier, "Methods and Programs for Mathematical Functions", 1989).
 * Beyond -87 and 88 it is that of the bound; NaN stays NaN.
 */
static inline float VARIANT(exp_of)(float x)
{
	/* Adding 1.5 * 2^23 rounds to an integer, in the low bits. */
	const float rounding = 12582912.0f;
	union {
		float number;
		uint32_t bits;
	} shifted, power;
	x = x < -87.0f ? -87.0f : x;
	x = x > 88.0f ? 88.0f : x;
	shifted.number = x * 1.44269504f + rounding;
	float n = shifted.number - rounding;
	/* ln(2) in two parts, so that the first product is exact. */
	float rest = (x - n * 0.693359375f) + n * 2.12194440e-4f;
	float sum = 1.9875691500e-4f;
	sum = sum * rest + 1.3981999507e-3f;
	sum = sum * rest + 8.3334519073e-3f;
	sum = sum * rest + 4.1665795894e-2f;
	sum = sum * rest + 1.6666665459e-1f;
	sum = sum * rest + 5.0000001201e-1f;
	sum = sum * rest * rest + rest + 1;
	power.bits = (shifted.bits + 127) << 23;
	return sum * power.number;
}

static inline float VARIANT(total)(const float lanes[LANES])
{
	float sums[LANES];
	for (int l = 0; l < LANES; l++)
		sums[l] = lanes[l];
	for (int half = LANES / 2; half; half /= 2)
		for (int l = 0; l < half; l++)
			sums[l] += sums[l + half];
	return sums[0];
}

/* ---- GELU: x / (1 + exp(-2 u)), for 1 + tanh(u) = 2 / (1 + exp(-2 u)) ---- */

#define GELU_SLOPE 1.5957691216f /* 2 sqrt(2 / pi) */
#define GELU_CUBE 0.044715f

static void VARIANT(gelu)(size_t count, const float *in, float *out)
{
	for (size_t i = 0; i < count; i++) {
		float x = in[i];
		float inner = GELU_SLOPE * (x + GELU_CUBE * x * x * x);
		out[i] = x / (1 + VARIANT(exp_of)(-inner));
	}
}

static void VARIANT(gelu_grad)(size_t count, const float *in, const float *out_grad, float *in_grad)
{
	for (size_t i = 0; i < count; i++) {
		float x = in[i];
		float inner = GELU_SLOPE * (x + GELU_CUBE * x * x * x);
		float slope = GELU_SLOPE * (1 + 3 * GELU_CUBE * x * x);
		float power = VARIANT(exp_of)(-inner);
		float part = 1 / (1 + power);
		in_grad[i] = out_grad[i] * (part + x * (power * part) * part * slope);
	}
}

/* ---- Softmax ---- */

static float VARIANT(greatest)(size_t count, float scale, const float *in)
{
	float lanes[LANES], top = -INFINITY;
	size_t i = 0;
	for (int l = 0; l < LANES; l++)
		lanes[l] = -INFINITY;
	for (; i + LANES <= count; i += LANES)
		for (int l = 0; l < LANES; l++)
			lanes[l] = scale * in[i + l] > lanes[l] ? scale * in[i + l] : lanes[l];
	for (; i < count; i++)
		top = scale * in[i] > top ? scale * in[i] : top;
	for (int l = 0; l < LANES; l++)
		top = lanes[l] > top ? lanes[l] : top;
	return top;
}

static float VARIANT(exp_sum)(size_t count, float scale, const float *in, float top, float *out)
{
	float lanes[LANES] = { 0 }, part[LANES];
	size_t i = 0;
	for (; i + LANES <= count; i += LANES) {
		for (int l = 0; l < LANES; l++) {
			part[l] = VARIANT(exp_of)(scale * in[i + l] - top);
			lanes[l] += part[l];
		}
		if (out)
			memcpy(out + i, part, sizeof(part));
	}
	for (int l = 0; i < count; i++, l++) {
		float power = VARIANT(exp_of)(scale * in[i] - top);
		lanes[l] += power;
		if (out)
			out[i] = power;
	}
	return VARIANT(total)(lanes);
}

static float VARIANT(dot)(size_t count, const float *a, const float *b)
{
	float lanes[LANES] = { 0 };
	size_t i = 0;
	for (; i + LANES <= count; i += LANES)
		for (int l = 0; l < LANES; l++)
			lanes[l] += a[i + l] * b[i + l];
	for (int l = 0; i < count; i++, l++)
		lanes[l] += a[i] * b[i];
	return VARIANT(total)(lanes);
}

/* ---- Layer norm ---- */

static float VARIANT(sum)(size_t count, const float *in)
{
	float lanes[LANES] = { 0 };
	size_t i = 0;
	for (; i + LANES <= count; i += LANES)
		for (int l = 0; l < LANES; l++)
			lanes[l] += in[i + l];
	for (int l = 0; i < count; i++, l++)
		lanes[l] += in[i];
	return VARIANT(total)(lanes);
}

/* The sum of squares of deviations: not a difference of large sums. */
static float VARIANT(spread)(size_t count, const float *in, float mean)
{
	float lanes[LANES] = { 0 };
	size_t i = 0;
	for (; i + LANES <= count; i += LANES)
		for (int l = 0; l < LANES; l++)
			lanes[l] += (in[i + l] - mean) * (in[i + l] - mean);
	for (int l = 0; i < count; i++, l++)
		lanes[l] += (in[i] - mean) * (in[i] - mean);
	return VARIANT(total)(lanes);
}

static void VARIANT(layer_norm)(size_t count, float epsilon, const float *in, const float *weight,
	const float *bias, float *mean_out, float *inverse_out, float *out)
{
	float mean = VARIANT(sum)(count, in) / count;
	float inverse = 1 / sqrtf(VARIANT(spread)(count, in, mean) / count + epsilon);
	for (size_t i = 0; i < count; i++)
		out[i] = (in[i] - mean) * inverse * weight[i] + bias[i];
	*mean_out = mean;
	*inverse_out = inverse;
}

/* The sums of out_grad * weight, and of that times the normalised input. */
static void VARIANT(slope_sums)(size_t count, const float *in, float mean, float inverse,
	const float *weight, const float *out_grad, float *plain, float *scaled)
{
	float plain_lanes[LANES] = { 0 }, scaled_lanes[LANES] = { 0 };
	size_t i = 0;
	for (; i + LANES <= count; i += LANES)
		for (int l = 0; l < LANES; l++) {
			float slope = out_grad[i + l] * weight[i + l];
			plain_lanes[l] += slope;
			scaled_lanes[l] += slope * ((in[i + l] - mean) * inverse);
		}
	for (int l = 0; i < count; i++, l++) {
		float slope = out_grad[i] * weight[i];
		plain_lanes[l] += slope;
		scaled_lanes[l] += slope * ((in[i] - mean) * inverse);
	}
	*plain = VARIANT(total)(plain_lanes);
	*scaled = VARIANT(total)(scaled_lanes);
}

static void VARIANT(layer_norm_grad)(size_t count, const float *in, float mean, float inverse,
	const float *weight, const float *out_grad, float *restrict in_grad,
	float *restrict weight_grad, float *restrict bias_grad)
{
	float plain, scaled;
	VARIANT(slope_sums)(count, in, mean, inverse, weight, out_grad, &plain, &scaled);
	plain /= count;
	scaled /= count;
	for (size_t i = 0; i < count; i++) {
		float normal = (in[i] - mean) * inverse;
		weight_grad[i] += out_grad[i] * normal;
		bias_grad[i] += out_grad[i];
		in_grad[i] = inverse * (out_grad[i] * weight[i] - plain - normal * scaled);
	}
}

static const struct vector_loops VARIANT(loops) = {
	.gelu = VARIANT(gelu),
	.gelu_grad = VARIANT(gelu_grad),
	.greatest = VARIANT(greatest),
	.exp_sum = VARIANT(exp_sum),
	.dot = VARIANT(dot),
	.layer_norm = VARIANT(layer_norm),
	.layer_norm_grad = VARIANT(layer_norm_grad),
};

#undef LANES
#undef GELU_SLOPE
#undef GELU_CUBE
#undef VARIANT
