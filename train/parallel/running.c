#include "train/parallel/running.h"

#include <stdlib.h>

#include "train/base/fail.h"

struct running {
	struct ddp *sums; /* of the buffers, as if they were gradients */
	const struct tensors *buffers;
	size_t size; /* bytes */
	float *before; /* [buffers->elements] */
	int micro_batches;
};

int running_create(struct running **out, struct ddp *ddp, const struct tensors *buffers)
{
	struct device *device = ddp->device;
	const struct ddp_config config = { .bucket_size = SIZE_MAX,
		.micro_batches = ddp->config.micro_batches,
		.deterministic = true,
		.beside = ddp };
	struct running *running = calloc(1, sizeof(*running));
	*out = NULL;
	if (!running)
		return fail("out of memory");
	running->buffers = buffers;
	running->size = buffers->elements * sizeof(float);
	running->micro_batches = config.micro_batches;
	int err = ddp_create(&running->sums, ddp->world, device, buffers, &config);
	if (!err)
		err = device->ops->alloc(device, (void **)&running->before, running->size);
	if (err)
		running_destroy(running);
	else
		*out = running;
	return err;
}

void running_destroy(struct running *running)
{
	if (!running)
		return;
	if (running->sums) {
		struct device *device = running->sums->device;
		device->ops->free(device, running->before);
	}
	ddp_destroy(running->sums);
	free(running);
}

void running_restore(struct running *running, int micro_batch)
{
	if (!running)
		return;
	struct device *device = running->sums->device;
	float *values = running->buffers->values;
	if (micro_batch == 0)
		device->ops->copy(device, running->before, values, running->size);
	else
		device->ops->copy(device, values, running->before, running->size);
}

int running_add(struct running *running, int micro_batch, size_t samples)
{
	if (!running)
		return 0;
	struct ddp *sums = running->sums;
	struct device *device = sums->device;
	int err = ddp_begin(sums, micro_batch, running->micro_batches);
	for (int t = running->buffers->count - 1; !err && t >= 0; t--) {
		const struct tensor *tensor = &running->buffers->list[t];
		if (samples == 0) {
			err = ddp_unused(sums, t);
			continue;
		}
		device->ops->copy(
			device, tensor->grad, tensor->value, tensor->count * sizeof(float));
		err = ddp_ready(sums, t);
	}
	return err;
}

int running_wait(struct running *running, size_t samples)
{
	if (!running)
		return 0;
	struct ddp *sums = running->sums;
	struct device *device = sums->device;
	float *values = running->buffers->values;
	size_t parts = (size_t)sums->world->size * running->micro_batches;
	size_t counted = samples < parts ? samples : parts;
	int err = ddp_wait(sums);
	device->ops->copy(device, values, sums->gradients, running->size);
	device->ops->scale(device, running->buffers->elements, 1 / (float)counted, values);
	return err;
}
