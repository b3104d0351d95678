/* Memory for the batches of a loader. */
#ifndef TRAIN_BATCHES_H
#define TRAIN_BATCHES_H

#include <stddef.h>

#include "train/data/data.h"
#include "train/data/loader.h"
#include "train/device/device.h"

/* `count` batches with room for `samples` each, on the host. If the device is the host, they are in
   its memory. On failure *batches is NULL. */
int batches_create(struct batch **batches, int count, struct device *device,
	const struct data *data, size_t samples);
/* Accepts NULL. */
void batches_destroy(struct batch *batches, int count, struct device *device);

#endif
