/*
 * Gives a rank its batches, step by step. Worker threads gather the next ones meanwhile, as
 * PyTorch's DataLoader(num_workers=N) does; without workers, the calling thread gathers each when
 * it takes it. Contents and order are the same for any number of workers.
 *
 * Steps count on over the epochs, and workers go on into the next epoch: they shuffle its order
 * once all batches of this one are assigned.
 *
 * One thread uses a loader. While it exists, data outlives it, and its sampler is its own.
 */
#ifndef TRAIN_LOADER_H
#define TRAIN_LOADER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "train/data/data.h"
#include "train/data/sampler.h"
#include "train/device/device.h"

#define LOADER_WORKERS_MAX 64

/* Samples in the caller's memory, which has room for sampler_batch_max(). */
struct batch {
	size_t count; /* samples of this rank, possibly 0 */
	void *inputs; /* [count][data->input_count] */
	int32_t *labels; /* [count][data->label_count] */
};

struct loader;

/* The number of batches that a loader with so many workers fills in turn. */
int loader_batch_count(int workers);

/*
 * The loader fills batches[loader_batch_count(workers)], whose memory outlives it. With `shuffled`,
 * epoch e has the order of sampler_shuffle(seed, e), else that of the set. Workers start with
 * epoch 0.
 */
struct loader_options {
	const struct data *data;
	struct sampler *sampler;
	const struct batch *batches;
	int workers; /* 0 to LOADER_WORKERS_MAX */
	bool shuffled;
	uint64_t seed;
};
int loader_create(struct loader **loader, const struct loader_options *options);
/* Stops the workers; waits at most for batches that they gather at the moment. Accepts NULL. */
void loader_destroy(struct loader *loader);

/*
 * The batch of a step of an epoch, valid until the next but one call. Any step may follow any
 * other; workers expect the next one. Fails if the data was cut off meanwhile, and if the batch is
 * not gathered within a minute.
 */
int loader_take(struct loader *loader, uint64_t epoch, size_t step, struct batch *batch);

/* Memory for the batches of a loader. */

/* `count` batches with room for `samples` each, on the host. If the device is the host, they are in
   its memory. On failure *batches is NULL. */
int batches_create(struct batch **batches, int count, struct device *device,
	const struct data *data, size_t samples);
/* Accepts NULL. */
void batches_destroy(struct batch *batches, int count, struct device *device);

#endif
