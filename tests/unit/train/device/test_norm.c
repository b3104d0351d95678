/* ctest label: instructions */
/*
 * Batch norm and its gradients, in every variant of the CPU's kernels, against plain loops in
 * double precision and finite differences.
 */
#include "train/device/images.h"
#include "train/rounding.h"

static const struct planes shapes[] = {
	{ 5, 16, 14, 14 },
	{ 2, 3, 28, 28 },
	{ 1, 17, 5, 3 },
	{ 7, 1, 1, 1 },
	{ 4, 6, 7, 33 },
};

#define SHAPES ((int)(sizeof(shapes) / sizeof(shapes[0])))

/* Values of one shape, and the reference in double. */
struct state {
	struct norm norm;
	size_t plane, count; /* elements of a plane, of all */
	double elements; /* of a channel */
	float *in, *weight, *bias, *out_grad, *out, *in_grad, *saved, *running;
	double *sums;
};

static int channel_of(const struct state *s, size_t i)
{
	return i / s->plane % s->norm.shape.channels;
}

static void open_state(struct state *s, const struct planes *shape, bool relu)
{
	int channels = shape->channels;
	*s = (struct state){ .norm = { *shape, 1e-5f, relu } };
	s->plane = (size_t)shape->rows * shape->columns;
	s->count = shape->batch * channels * s->plane;
	s->elements = (double)shape->batch * s->plane;
	s->in = drawn(s->count, 1);
	s->weight = drawn(channels, 2);
	s->bias = drawn(channels, 3);
	s->out_grad = drawn(s->count, 4);
	s->out = drawn(s->count, 5);
	s->in_grad = drawn(s->count, 6);
	s->saved = drawn(2 * channels, 7);
	s->running = drawn(2 * channels, 8);
	s->sums = zeros(2 * channels);
	for (size_t i = 0; i < s->count; i++)
		s->in[i] += 0.5f * channel_of(s, i); /* a mean that is not 0 */
}

static void close_state(struct state *s)
{
	free(s->in), free(s->weight), free(s->bias), free(s->out_grad), free(s->out);
	free(s->in_grad), free(s->saved), free(s->running), free(s->sums);
}

static void forward(struct device *cpu, struct state *s)
{
	cpu->ops->norm_sums(cpu, &s->norm, s->in, s->sums);
	cpu->ops->norm_moments(cpu, &s->norm, s->sums, s->elements, 0.1f, s->saved, s->running,
		s->running + s->norm.shape.channels);
	cpu->ops->norm(cpu, &s->norm, s->in, s->saved, s->weight, s->bias, s->out);
}

/* mean[channels] and variance[channels], in two passes. */
static void moments(const struct state *s, double *mean, double *variance)
{
	for (size_t i = 0; i < s->count; i++)
		mean[channel_of(s, i)] += s->in[i] / s->elements;
	for (size_t i = 0; i < s->count; i++) {
		double x = s->in[i] - mean[channel_of(s, i)];
		variance[channel_of(s, i)] += x * x / s->elements;
	}
}

/* The output in double, given the inputs. sizes[i], if not NULL: the sum of its absolute parts. */
static double *plain_output(const struct state *s, double *sizes)
{
	int channels = s->norm.shape.channels;
	double *mean = zeros(channels), *variance = zeros(channels), *out = zeros(s->count);
	moments(s, mean, variance);
	for (size_t i = 0; i < s->count; i++) {
		int c = channel_of(s, i);
		double scale = s->weight[c] / sqrt(variance[c] + s->norm.epsilon);
		double x = (s->in[i] - mean[c]) * scale + s->bias[c];
		out[i] = s->norm.relu && x < 0 ? 0 : x;
		if (sizes)
			sizes[i] =
				(fabs(s->in[i]) + fabs(mean[c])) * fabs(scale) + fabs(s->bias[c]);
	}
	free(mean), free(variance);
	return out;
}

/* By a tenth; of the rounding of 0.1, of `to`, of a difference, of a product and of a sum. */
static void expect_moved(float value, double before, double to)
{
	cr_assert_float_eq(
		value, before + 0.1 * (to - before), ROUNDING(5, fabs(before) + fabs(to)));
}

static void check_forward(struct device *cpu, const char *variant)
{
	for (int i = 0; i < 2 * SHAPES; i++) {
		struct state s;
		open_state(&s, &shapes[i / 2], i % 2);
		int channels = s.norm.shape.channels;
		double *mean = zeros(channels), *variance = zeros(channels);
		float *before = drawn(2 * channels, 8);
		forward(cpu, &s);
		double *sizes = zeros(s.count), *out = plain_output(&s, sizes);
		/* Mean, deviation, scale, its product with the mean, shift, a product and a sum. */
		expect_near("norm", variant, s.count, s.out, out, 7, sizes);
		moments(&s, mean, variance);
		for (int c = 0; c < channels; c++) {
			double unbiased = variance[c] * s.elements / (s.elements - 1);
			expect_moved(s.running[c], before[c], mean[c]);
			expect_moved(s.running[channels + c], before[channels + c], unbiased);
		}
		free(mean), free(variance), free(before), free(out), free(sizes);
		close_state(&s);
	}
}

Test(norm, output_and_running_statistics_equal_plain_loops)
{
	with_each_variant(check_forward);
}

/* The sum of out_grad times the output, whose gradients backward gives. */
static double objective(const struct state *s)
{
	double *out = plain_output(s, NULL), sum = 0;
	for (size_t i = 0; i < s->count; i++)
		sum += s->out_grad[i] * out[i];
	free(out);
	return sum;
}

/* The slopes of the objective by *value, below it and above it. */
static void slopes(const struct state *s, float *value, double *left, double *right)
{
	float middle = *value;
	double ends[3], steps[3];
	for (int k = 0; k < 3; k++) {
		*value = middle + (k - 1) * 1.0f / 512;
		steps[k] = *value;
		ends[k] = objective(s);
	}
	*value = middle;
	*left = (ends[1] - ends[0]) / (steps[1] - steps[0]);
	*right = (ends[2] - ends[1]) / (steps[2] - steps[1]);
}

/*
 * The slope at the middle lies between those to both sides, where the second derivative keeps its
 * sign, and so where ReLU has a corner between the ends. The objective is computed in doubles. A
 * gradient adds up the products of a channel's 63 elements, four times at most.
 */
static void expect_slope(
	const char *what, const char *variant, const struct state *s, float *value, double grad)
{
	double left, right;
	slopes(s, value, &left, &right);
	cr_assert_float_eq(grad, (left + right) / 2, fabs(left - right) + ROUNDING(4 * 63, 63),
		"%s, %s: %g instead of %g", what, variant, grad, (left + right) / 2);
}

static void check_gradients(struct device *cpu, const char *variant)
{
	const struct planes shape = { 3, 5, 3, 7 };
	for (int relu = 0; relu < 2; relu++) {
		struct state s;
		open_state(&s, &shape, relu);
		float *weight_grad = drawn(shape.channels, 9),
		      *bias_grad = drawn(shape.channels, 10);
		forward(cpu, &s);
		cpu->ops->norm_grad_sums(cpu, &s.norm, s.in, s.out, s.out_grad, s.saved, s.sums);
		cpu->ops->norm_weight_grad(cpu, &s.norm, s.sums, weight_grad, bias_grad);
		cpu->ops->norm_in_grad(cpu, &s.norm, s.in, s.out, s.out_grad, s.saved, s.weight,
			s.sums, s.elements, s.in_grad);
		for (int c = 0; c < shape.channels; c++) {
			expect_slope("weight", variant, &s, &s.weight[c], weight_grad[c]);
			expect_slope("bias", variant, &s, &s.bias[c], bias_grad[c]);
		}
		for (size_t i = 0; i < s.count; i++)
			expect_slope("input", variant, &s, &s.in[i], s.in_grad[i]);
		free(weight_grad), free(bias_grad);
		close_state(&s);
	}
}

Test(norm, gradients_are_those_of_finite_differences)
{
	with_each_variant(check_gradients);
}

/* With sums added up, halves of a batch give what the whole gives: SyncBatchNorm. */
static void check_halves(struct device *cpu, const char *variant)
{
	const struct planes shape = { 6, 5, 9, 11 };
	struct state whole;
	open_state(&whole, &shape, true);
	int sums = 2 * shape.channels;
	/* Squares of numbers up to 3, or products of numbers up to 1 and 9. */
	const double bound = 2 * ROUNDING_OF_DOUBLES(whole.elements, 9 * whole.elements);
	struct norm half = whole.norm;
	half.shape.batch = 3;
	size_t middle = whole.count / 2;
	double *first = zeros(sums), *second = zeros(sums);
	float *in_grad = drawn(whole.count, 11);
	cpu->ops->norm_sums(cpu, &half, whole.in, first);
	cpu->ops->norm_sums(cpu, &half, whole.in + middle, second);
	forward(cpu, &whole);
	for (int i = 0; i < sums; i++)
		cr_assert_float_eq(first[i] + second[i], whole.sums[i], bound, "%s", variant);
	cpu->ops->norm_grad_sums(
		cpu, &half, whole.in, whole.out, whole.out_grad, whole.saved, first);
	cpu->ops->norm_grad_sums(cpu, &half, whole.in + middle, whole.out + middle,
		whole.out_grad + middle, whole.saved, second);
	cpu->ops->norm_grad_sums(
		cpu, &whole.norm, whole.in, whole.out, whole.out_grad, whole.saved, whole.sums);
	for (int i = 0; i < sums; i++)
		cr_assert_float_eq(first[i] + second[i], whole.sums[i], bound, "%s", variant);
	cpu->ops->norm_in_grad(cpu, &whole.norm, whole.in, whole.out, whole.out_grad, whole.saved,
		whole.weight, whole.sums, whole.elements, whole.in_grad);
	cpu->ops->norm_in_grad(cpu, &half, whole.in + middle, whole.out + middle,
		whole.out_grad + middle, whole.saved, whole.weight, whole.sums, whole.elements,
		in_grad);
	cr_assert_arr_eq(in_grad, whole.in_grad + middle, middle * sizeof(float), "%s", variant);
	free(first), free(second), free(in_grad);
	close_state(&whole);
}

Test(norm, halves_whose_sums_are_added_give_the_whole)
{
	with_each_variant(check_halves);
}

static void check_fixed(struct device *cpu, const char *variant)
{
	struct state s;
	open_state(&s, &shapes[2], false);
	int channels = s.norm.shape.channels;
	for (int c = 0; c < channels; c++)
		s.running[channels + c] = 0.25f + c;
	cpu->ops->norm_fixed(cpu, &s.norm, s.running, s.running + channels, s.saved);
	for (int c = 0; c < channels; c++) {
		cr_assert_eq(s.saved[c], s.running[c]);
		double inverse = 1 / sqrt(0.25 + c + 1e-5);
		cr_assert_float_eq(
			s.saved[channels + c], inverse, ROUNDING(4, inverse), "%s", variant);
	}
	close_state(&s);
}

Test(norm, evaluation_uses_the_running_statistics)
{
	with_each_variant(check_fixed);
}
