#include "train/data/batches.h"

#include <stdbool.h>
#include <stdlib.h>

#include "train/base/fail.h"

static int allocate(struct device *device, void **memory, size_t size)
{
	if (device->number < 0)
		return device->ops->alloc(device, memory, size);
	*memory = malloc(size);
	return *memory ? 0 : fail("out of memory for a batch of %zu bytes", size);
}

int batches_create(struct batch **out, int count, struct device *device, const struct data *data,
	size_t samples)
{
	struct batch *batches = calloc(count, sizeof(*batches));
	size_t inputs_size = samples * data->input_count * sizeof(float);
	size_t labels_size = samples * data->label_count * sizeof(int32_t);
	int err = batches ? 0 : fail("out of memory");
	*out = NULL;
	for (int i = 0; !err && i < count; i++) {
		err = allocate(device, &batches[i].inputs, inputs_size);
		if (!err)
			err = allocate(device, (void **)&batches[i].labels, labels_size);
	}
	if (err)
		batches_destroy(batches, count, device);
	else
		*out = batches;
	return err;
}

void batches_destroy(struct batch *batches, int count, struct device *device)
{
	bool host = device->number < 0;
	for (int i = 0; batches && i < count; i++) {
		if (host) {
			device->ops->free(device, batches[i].inputs);
			device->ops->free(device, batches[i].labels);
		} else {
			free(batches[i].inputs);
			free(batches[i].labels);
		}
	}
	free(batches);
}
