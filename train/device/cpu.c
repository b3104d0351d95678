/* The host as a device: OpenBLAS and plain loops. A call is done when it returns. */
#include <cblas.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "train/base/clock.h"
#include "train/device/device.h"
#include "train/base/fail.h"

/* A cache line's. */
#define ALIGNMENT 64

struct cpu {
	struct device base;
	rondo_stream *stream; /* ddp's */
	double moments[DEVICE_MOMENTS]; /* seconds */
};

static void cpu_destroy(struct device *device)
{
	free(device);
}

/* ---- Memory ---- */

static int cpu_alloc(struct device *device, void **memory, size_t size)
{
	(void)device;
	if (posix_memalign(memory, ALIGNMENT, size)) {
		*memory = NULL;
		return fail("out of memory for %zu bytes", size);
	}
	memset(*memory, 0, size);
	return 0;
}

static void cpu_free(struct device *device, void *memory)
{
	(void)device;
	free(memory);
}

static int cpu_reserve(struct device *device, size_t size)
{
	(void)device, (void)size;
	return 0;
}

static void cpu_put(struct device *device, void *to, const void *from, size_t size)
{
	(void)device;
	if (to != from)
		memcpy(to, from, size);
}

static int cpu_get(struct device *device, void *to, const void *from, size_t size)
{
	(void)device;
	memcpy(to, from, size);
	return 0;
}

static int cpu_wait(struct device *device)
{
	(void)device;
	return 0;
}

/* ---- Layers ---- */

static void cpu_product(struct device *device, int rows, int columns, int inner, const float *a,
	enum layout a_layout, const float *b, enum layout b_layout, float beta, float *c)
{
	(void)device;
	cblas_sgemm(CblasRowMajor, a_layout == AS_IS ? CblasNoTrans : CblasTrans,
		b_layout == AS_IS ? CblasNoTrans : CblasTrans, rows, columns, inner, 1.0f, a,
		a_layout == AS_IS ? inner : rows, b, b_layout == AS_IS ? columns : inner, beta, c,
		columns);
}

static void cpu_spread(struct device *device, int rows, int columns, const float *row, float *out)
{
	(void)device;
	for (int r = 0; r < rows; r++)
		memcpy(out + (size_t)r * columns, row, columns * sizeof(float));
}

static void cpu_column_sums(
	struct device *device, int rows, int columns, const float *in, float *sums)
{
	(void)device;
	memset(sums, 0, columns * sizeof(float));
	for (int r = 0; r < rows; r++)
		for (int c = 0; c < columns; c++)
			sums[c] += in[(size_t)r * columns + c];
}

static void cpu_relu(struct device *device, size_t count, const float *in, float *out)
{
	(void)device;
	for (size_t i = 0; i < count; i++)
		out[i] = in[i] > 0 ? in[i] : 0;
}

static void cpu_relu_grad(
	struct device *device, size_t count, const float *in, const float *out_grad, float *in_grad)
{
	(void)device;
	for (size_t i = 0; i < count; i++)
		in_grad[i] = in[i] > 0 ? out_grad[i] : 0;
}

/* ---- Softmax cross-entropy ---- */

static int largest(const float *logits /* [columns] */, int columns)
{
	int best = 0;
	for (int c = 1; c < columns; c++)
		if (logits[c] > logits[best])
			best = c;
	return best;
}

/* log(sum of exp(logit)), safe from overflow: the largest exponent is 0. */
static double log_sum_exp(const float *logits /* [columns] */, int columns)
{
	double top = logits[largest(logits, columns)], sum = 0;
	for (int c = 0; c < columns; c++)
		sum += exp(logits[c] - top);
	return top + log(sum);
}

static void cpu_loss(struct device *device, int rows, int columns, const float *logits,
	const uint8_t *labels, double *sums)
{
	(void)device;
	sums[0] = sums[1] = 0;
	for (int r = 0; r < rows; r++, logits += columns) {
		sums[0] += log_sum_exp(logits, columns) - logits[labels[r]];
		sums[1] += largest(logits, columns) == labels[r];
	}
}

/* The gradient of a row's loss by its logits: softmax, less 1 at the label. */
static void cpu_loss_grad(struct device *device, int rows, int columns, const float *logits,
	const uint8_t *labels, float scale, float *grad)
{
	(void)device;
	for (int r = 0; r < rows; r++, logits += columns, grad += columns) {
		double norm = log_sum_exp(logits, columns);
		for (int c = 0; c < columns; c++)
			grad[c] = scale * (float)(exp(logits[c] - norm) - (c == labels[r]));
	}
}

/* ---- Optimizer ---- */

static void cpu_descend(
	struct device *device, size_t count, float rate, const float *grad, float *value)
{
	(void)device;
	for (size_t i = 0; i < count; i++)
		value[i] -= rate * grad[i];
}

/* ---- Communication ---- */

static int cpu_stream(struct device *device, rondo_stream **stream)
{
	struct cpu *cpu = (struct cpu *)device;
	int err = rondo_stream_create(stream);
	if (err)
		return fail_comm(err, "cannot start a stream");
	cpu->stream = *stream;
	return 0;
}

/* Computation is done already; communication has a thread of its own. */
static int cpu_join(struct device *device, enum track track)
{
	struct cpu *cpu = (struct cpu *)device;
	int err = track == COMPUTATION ? rondo_stream_synchronize(cpu->stream) : 0;
	return err ? fail_comm(err, "average of gradients") : 0;
}

static void note_now(void *moment)
{
	*(double *)moment = clock_seconds();
}

static void cpu_record(struct device *device, enum track track, int moment)
{
	struct cpu *cpu = (struct cpu *)device;
	if (track == COMPUTATION)
		note_now(&cpu->moments[moment]);
	else
		rondo_stream_call(cpu->stream, note_now, &cpu->moments[moment]);
}

static double cpu_between(struct device *device, int from, int to)
{
	const struct cpu *cpu = (struct cpu *)device;
	return cpu->moments[to] - cpu->moments[from];
}

static const struct device_ops cpu_ops = {
	.destroy = cpu_destroy,
	.alloc = cpu_alloc,
	.free = cpu_free,
	.reserve = cpu_reserve,
	.put = cpu_put,
	.get = cpu_get,
	.wait = cpu_wait,
	.product = cpu_product,
	.spread = cpu_spread,
	.column_sums = cpu_column_sums,
	.relu = cpu_relu,
	.relu_grad = cpu_relu_grad,
	.loss = cpu_loss,
	.loss_grad = cpu_loss_grad,
	.descend = cpu_descend,
	.stream = cpu_stream,
	.join = cpu_join,
	.record = cpu_record,
	.between = cpu_between,
};

int cpu_create(struct device **device)
{
	struct cpu *cpu = calloc(1, sizeof(*cpu));
	*device = NULL;
	if (!cpu)
		return fail("out of memory");
	cpu->base = (struct device){ .ops = &cpu_ops, .number = -1, .name = "cpu" };
	*device = &cpu->base;
	return 0;
}
