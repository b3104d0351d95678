#include "train/device/operations.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "train/base/fail.h"
#include "train/base/rng.h"
#include "train/rounding.h"

static void draw(struct operands *o, bool coarse)
{
	struct rng rng = rng_make(5, 0);
	memset(o, 0, sizeof(*o));
	for (int v = 0; v < OPERANDS; v++)
		for (int i = 0; i < ROOM; i++)
			o->values[v][i] = coarse ? draw_coarse(&rng, 2) : rng_between(&rng, -2, 2);
	for (int i = 0; i < ROOM; i++) {
		o->sums[i] = rng_between(&rng, -2, 2);
		o->labels[i] = rng_below(&rng, LABELS);
		o->index[i] = rng_below(&rng, 4);
	}
}

static void take_absolute(struct operands *o)
{
	for (int v = 0; v < OPERANDS; v++)
		for (int i = 0; i < ROOM; i++)
			o->values[v][i] = fabsf(o->values[v][i]);
}

/* From the same numbers to *out, by a device. */
static int run_on(struct device *device, const struct operation *operation, void *memory,
	const struct operands *in, struct operands *out)
{
	device->ops->put(device, memory, in, sizeof(*in));
	operation->run(device, memory);
	return device->ops->get(device, out, memory, sizeof(*out));
}

/* The rounding of both; `size` may be less than the number itself, which is a sum's, too. */
static bool is_near(double a, double b, double roundings, double size)
{
	if (isnan(a) || isnan(b) || isinf(a) || isinf(b))
		return (isnan(a) && isnan(b)) || a == b;
	return fabs(a - b) <= 2 * ROUNDING(roundings, fmax(size, fabs(a)));
}

static bool adds_products(const struct operation *operation)
{
	bool sized = operation->sum_size > 0;
	for (int v = 0; v < OPERANDS; v++)
		sized = sized || operation->sizes[v] > 0;
	return !sized;
}

/* `sizes`: of the sums of products. */
static int compare(const struct operation *operation, const struct operands *right,
	const struct operands *got, const struct operands *sizes)
{
	const char *name = operation->name;
	bool products = adds_products(operation);
	for (int v = 0; v < OPERANDS; v++)
		for (int i = 0; i < ROOM; i++) {
			double size = products ? sizes->values[v][i] : operation->sizes[v];
			double roundings = size > 0 ? operation->roundings : 0;
			if (!is_near(right->values[v][i], got->values[v][i], roundings, size))
				return fail("%s: element %d of operand %d is %.9g, not %.9g", name,
					i, v, got->values[v][i], right->values[v][i]);
		}
	for (int i = 0; i < ROOM; i++) {
		double roundings = operation->sum_size > 0 ? operation->roundings : 0;
		if (!is_near(right->sums[i], got->sums[i], roundings, operation->sum_size))
			return fail("%s: sum %d is %.17g, not %.17g", name, i, got->sums[i],
				right->sums[i]);
		if (right->labels[i] != got->labels[i] || right->halves[i] != got->halves[i] ||
			right->index[i] != got->index[i])
			return fail("%s: labels, halves or index: integer %d differs", name, i);
	}
	return 0;
}

enum { CPU, GPU, SIZES, DRAWN };

/* The operation on both devices, and on the CPU with absolute operands. */
static int try_operation(const struct operation *operation, struct device *devices[2],
	void *memory[2], struct operands o[4])
{
	int err;
	draw(&o[DRAWN], operation->coarse);
	err = run_on(devices[CPU], operation, memory[CPU], &o[DRAWN], &o[CPU]) ||
	      run_on(devices[GPU], operation, memory[GPU], &o[DRAWN], &o[GPU]);
	take_absolute(&o[DRAWN]);
	return err || run_on(devices[CPU], operation, memory[CPU], &o[DRAWN], &o[SIZES]) ||
	       compare(operation, &o[CPU], &o[GPU], &o[SIZES]);
}

int compare_operations(const struct operation *operations, int count)
{
	struct device *devices[2];
	void *memory[2];
	struct operands *o = malloc(4 * sizeof(*o));
	int err = o ? 0 : fail("out of memory");
	for (int d = CPU; !err && d <= GPU; d++) {
		err = device_create(&devices[d], d == GPU ? DEVICE_CUDA : DEVICE_CPU, 0);
		if (!err)
			err = devices[d]->ops->alloc(devices[d], &memory[d], sizeof(*o));
	}
	if (err)
		return err;
	for (int n = 0; !err && n < count; n++)
		err = try_operation(&operations[n], devices, memory, o);
	for (int d = CPU; d <= GPU; d++) {
		devices[d]->ops->free(devices[d], memory[d]);
		device_destroy(devices[d]);
	}
	free(o);
	return err;
}
