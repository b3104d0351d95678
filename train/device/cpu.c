/* The host as a device: memory, communication and the table. A call is done when it returns. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "train/base/clock.h"
#include "train/device/cpu.h"
#include "train/base/fail.h"

/* A cache line's. */
#define ALIGNMENT 64

struct cpu {
	struct device base;
	rondo_stream *stream; /* ddp's */
	double *moments; /* seconds */
	void *scratch; /* of cpu_scratch() */
	size_t scratch_size;
};

static void cpu_destroy(struct device *device)
{
	free(((struct cpu *)device)->moments);
	free(((struct cpu *)device)->scratch);
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

static void cpu_copy(struct device *device, void *to, const void *from, size_t size)
{
	(void)device;
	memcpy(to, from, size);
}

static void cpu_clear(struct device *device, void *memory, size_t size)
{
	(void)device;
	memset(memory, 0, size);
}

static int cpu_wait(struct device *device)
{
	return device_failure(device);
}

float *cpu_scratch(struct device *device, size_t count)
{
	struct cpu *cpu = (struct cpu *)device;
	size_t size = count * sizeof(float);
	if (device->error)
		return NULL;
	if (size <= cpu->scratch_size)
		return cpu->scratch;
	cpu_free(device, cpu->scratch);
	cpu->scratch_size = 0;
	device->error = cpu_alloc(device, &cpu->scratch, size);
	if (device->error)
		snprintf(device->reason, sizeof(device->reason), "%s", failure());
	else
		cpu->scratch_size = size;
	return cpu->scratch;
}

/* A factor rounded to a half is no faster here. */
static int cpu_precision(struct device *device, rondo_type type)
{
	(void)device;
	return type == RONDO_F32 ? 0
				 : fail("--precision %s: only GPUs have it: add --device cuda, or "
					"train with --precision f32",
					   type == RONDO_F16 ? "f16" : "bf16");
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

static int cpu_moments(struct device *device, int count)
{
	struct cpu *cpu = (struct cpu *)device;
	free(cpu->moments);
	cpu->moments = calloc(count, sizeof(*cpu->moments));
	return cpu->moments || !count ? 0 : fail("out of memory for %d moments", count);
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
	.copy = cpu_copy,
	.clear = cpu_clear,
	.wait = cpu_wait,
	.precision = cpu_precision,
	.product = cpu_product,
	.spread = cpu_spread,
	.column_sums = cpu_column_sums,
	.add = cpu_add,
	.scale = cpu_scale,
	.relu = cpu_relu,
	.relu_grad = cpu_relu_grad,
	.conv = cpu_conv,
	.conv_weight_grad = cpu_conv_weight_grad,
	.conv_in_grad = cpu_conv_in_grad,
	.norm_sums = cpu_norm_sums,
	.norm_moments = cpu_norm_moments,
	.norm_fixed = cpu_norm_fixed,
	.norm = cpu_norm,
	.norm_grad_sums = cpu_norm_grad_sums,
	.norm_weight_grad = cpu_norm_weight_grad,
	.norm_in_grad = cpu_norm_in_grad,
	.max_pool = cpu_max_pool,
	.max_pool_grad = cpu_max_pool_grad,
	.gelu = cpu_gelu,
	.gelu_grad = cpu_gelu_grad,
	.embed = cpu_embed,
	.embed_grad = cpu_embed_grad,
	.layer_norm = cpu_layer_norm,
	.layer_norm_grad = cpu_layer_norm_grad,
	.causal_softmax = cpu_causal_softmax,
	.causal_softmax_grad = cpu_causal_softmax_grad,
	.loss = cpu_loss,
	.loss_grad = cpu_loss_grad,
	.square_sum = cpu_square_sum,
	.clip_factor = cpu_clip_factor,
	.sgd = cpu_sgd,
	.adam = cpu_adam,
	.convert = cpu_convert,
	.stream = cpu_stream,
	.join = cpu_join,
	.moments = cpu_moments,
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
