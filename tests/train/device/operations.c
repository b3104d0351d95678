#include "train/device/operations.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "train/base/fail.h"
#include "train/base/rng.h"

static void draw(struct operands *o)
{
	struct rng rng = rng_make(5, 0);
	memset(o, 0, sizeof(*o));
	for (int v = 0; v < OPERANDS; v++)
		for (int i = 0; i < ROOM; i++)
			o->values[v][i] = rng_between(&rng, -2, 2);
	for (int i = 0; i < ROOM; i++) {
		o->sums[i] = rng_between(&rng, -2, 2);
		o->labels[i] = rng_below(&rng, LABELS);
		o->index[i] = rng_below(&rng, 4);
	}
}

/* From the same numbers to *out, by a device. */
static int run_on(struct device *device, const struct operation *operation, void *memory,
	const struct operands *in, struct operands *out)
{
	device->ops->put(device, memory, in, sizeof(*in));
	operation->run(device, memory);
	return device->ops->get(device, out, memory, sizeof(*out));
}

static bool is_near(double a, double b, double bound)
{
	return (isnan(a) && isnan(b)) || a == b || fabs(a - b) <= bound * fmax(1, fabs(a));
}

static int compare(
	const char *name, double bound, const struct operands *right, const struct operands *got)
{
	for (int v = 0; v < OPERANDS; v++)
		for (int i = 0; i < ROOM; i++)
			if (!is_near(right->values[v][i], got->values[v][i], bound))
				return fail("%s: element %d of operand %d is %.9g, not %.9g", name,
					i, v, got->values[v][i], right->values[v][i]);
	for (int i = 0; i < ROOM; i++) {
		if (!is_near(right->sums[i], got->sums[i], bound))
			return fail("%s: sum %d is %.17g, not %.17g", name, i, got->sums[i],
				right->sums[i]);
		if (right->labels[i] != got->labels[i] || right->halves[i] != got->halves[i] ||
			right->index[i] != got->index[i])
			return fail("%s: labels, halves or index: integer %d differs", name, i);
	}
	return 0;
}

int compare_operations(const struct operation *operations, int count)
{
	enum { CPU, GPU };
	struct device *devices[2];
	void *memory[2];
	struct operands *o = malloc(3 * sizeof(*o));
	int err = o ? 0 : fail("out of memory");
	for (int d = CPU; !err && d <= GPU; d++) {
		err = device_create(&devices[d], d == GPU ? DEVICE_CUDA : DEVICE_CPU, 0);
		if (!err)
			err = devices[d]->ops->alloc(devices[d], &memory[d], sizeof(*o));
	}
	if (err)
		return err;
	draw(&o[2]);
	for (int n = 0; !err && n < count; n++) {
		const struct operation *operation = &operations[n];
		err = run_on(devices[CPU], operation, memory[CPU], &o[2], &o[CPU]) ||
		      run_on(devices[GPU], operation, memory[GPU], &o[2], &o[GPU]) ||
		      compare(operation->name, operation->bound, &o[CPU], &o[GPU]);
	}
	for (int d = CPU; !err && d <= GPU; d++) {
		devices[d]->ops->free(devices[d], memory[d]);
		device_destroy(devices[d]);
	}
	free(o);
	return err;
}
