#include "exec/mean.h"

#include <math.h>
#include <string.h>

#include "base/arith.h"
#include "exec/parts.h"
#include "exec/reduce.h"

/* Elements that are added at a time, in the first-level cache. */
#define BLOCK 1024

/* The ranks' elements from one on. */
struct inputs {
	rd_mean_source source;
	const void *context;
	int ranks;
	rondo_type type;
	size_t at; /* bytes */
};

static const char *input(const struct inputs *inputs, int rank)
{
	return inputs->source(inputs->context, rank) + inputs->at;
}

/* 1 / 2^k: of n elements times this, no sum leaves the range. */
static double scale_for(int n)
{
	double scale = 1;

	while (n * scale > 1)
		scale /= 2;
	return scale;
}

/* ---- All inputs at hand ---------------------------------------------------------------------- */

static float f32_at(const char *from, rondo_type type)
{
	float value;

	if (rd_type_is_narrow(type))
		rd_widen(&value, from, 1, type);
	else
		memcpy(&value, from, sizeof(value));
	return value;
}

static double f64_at(const char *from, rondo_type type)
{
	double value;

	(void)type;
	memcpy(&value, from, sizeof(value));
	return value;
}

/* Makes the means that are not finite again, from scaled elements. */
#define MEND(real, value_at) \
	static void mend_##value_at(real *means, const struct inputs *inputs, size_t count) \
	{ \
		const real scale = (real)scale_for(inputs->ranks); \
\
		for (size_t i = 0; i < count; i++) { \
			size_t at = i * rondo_type_size(inputs->type); \
			real sum = 0; \
\
			if (isfinite(means[i])) \
				continue; \
			for (int rank = 0; rank < inputs->ranks; rank++) \
				sum += value_at(input(inputs, rank) + at, inputs->type) * scale; \
			means[i] = sum / ((real)inputs->ranks * scale); \
		} \
	}

MEND(float, f32_at)
MEND(double, f64_at)

static void mean_in_type(void *into, const struct inputs *inputs, size_t count)
{
	rd_reduce_function add = rd_reduce(inputs->type, RONDO_SUM);

	add(into, input(inputs, 0), input(inputs, 1), count);
	for (int rank = 2; rank < inputs->ranks; rank++)
		add(into, into, input(inputs, rank), count);
	if (rd_average(into, count, inputs->type, inputs->ranks))
		return;
	if (inputs->type == RONDO_F32)
		mend_f32_at(into, inputs, count);
	else
		mend_f64_at(into, inputs, count);
}

static void mean_in_f32(void *into, const struct inputs *inputs, size_t count)
{
	float sum[BLOCK], other[BLOCK];

	rd_widen(sum, input(inputs, 0), count, inputs->type);
	for (int rank = 1; rank < inputs->ranks; rank++) {
		rd_widen(other, input(inputs, rank), count, inputs->type);
		rd_reduce(RONDO_F32, RONDO_SUM)(sum, sum, other, count);
	}
	if (!rd_average(sum, count, RONDO_F32, inputs->ranks))
		mend_f32_at(sum, inputs, count);
	rd_narrow(into, sum, count, inputs->type);
}

void rd_mean_all(void *into, rd_mean_source source, const void *context, int ranks, size_t count,
	rondo_type type)
{
	struct inputs inputs = { source, context, ranks, rd_parts_of(type, &count), 0 };

	type = inputs.type;
	for (size_t done = 0; done < count; done += BLOCK) {
		size_t part = rd_min(BLOCK, count - done);

		inputs.at = done * rondo_type_size(type);
		if (rd_type_is_narrow(type))
			mean_in_f32((char *)into + inputs.at, &inputs, part);
		else
			mean_in_type((char *)into + inputs.at, &inputs, part);
	}
}

/* ---- Partial sums ---------------------------------------------------------------------------- */

void rd_mean_add(void *into, const void *a, const void *b, size_t count, rondo_type type,
	struct rd_mean_step step)
{
	double scale = scale_for(step.ranks);
	rondo_type part = rd_parts_of(type, &count);
	struct rd_scaled_sum sum = {
		.a = step.a_is_sum ? 1 : scale,
		.b = step.b_is_sum ? 1 : scale,
		.scale = scale,
		.by = step.last ? step.ranks : 0,
	};

	if (part == RONDO_F32 || part == RONDO_F64) {
		rd_add_scaled(into, a, b, count, part, &sum);
		return;
	}
	rd_reduce(part, RONDO_SUM)(into, a, b, count);
	if (step.last)
		rd_average(into, count, part, step.ranks);
}
