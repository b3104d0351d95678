#include "train/parallel/zero.h"

#include "train/base/fail.h"
#include "train/parallel/reduce.h"

/* A range of the parameters, and where its state begins. */
struct shard {
	size_t offset, count, state;
};

/* This rank's shard of each bucket in turn; the first: that of bucket 0. */
static void next_shard(const struct ddp *ddp, int bucket, struct shard *shard)
{
	shard->state = bucket ? shard->state + shard->count : 0;
	shard_of(ddp, &ddp->buckets[bucket], ddp->world->rank, &shard->offset, &shard->count);
	shard->offset += ddp->buckets[bucket].offset;
}

size_t zero_elements(const struct ddp *ddp)
{
	struct shard shard = { 0 };
	for (int b = 0; b < ddp->bucket_count; b++)
		next_shard(ddp, b, &shard);
	return shard.state + shard.count;
}

/* The sum of the squares of all gradients. */
static int measure(struct ddp *ddp, struct optimizer *optimizer)
{
	struct device *device = ddp->device;
	struct shard shard = { 0 };
	if (ddp->config.whole_sums) {
		/* As optimizer_step() does it: the same bits. */
		for (int t = 0; t < ddp->parameters->count; t++)
			optimizer_measure(optimizer, ddp->parameters->list[t].count,
				ddp->parameters->list[t].grad);
		return 0;
	}
	for (int b = 0; b < ddp->bucket_count; b++) {
		next_shard(ddp, b, &shard);
		optimizer_measure(optimizer, shard.count, ddp->gradients + shard.offset);
	}
	if (!ddp->stream)
		return 0;
	int err = device->ops->join(device, COMMUNICATION);
	if (err)
		return err;
	err = rondo_all_reduce(ddp->world->comm, optimizer->square_sum, optimizer->square_sum, 1,
		RONDO_F64, RONDO_SUM, ddp->stream);
	return err ? fail_comm(err, "norm of gradients") : device->ops->join(device, COMPUTATION);
}

int zero_step(struct ddp *ddp, struct optimizer *optimizer, float rate)
{
	float *values = ddp->parameters->values;
	struct shard shard = { 0 };
	int err = 0;
	optimizer_begin(optimizer);
	if (optimizer_measures(optimizer)) {
		err = measure(ddp, optimizer);
		if (!err)
			optimizer_clip(optimizer);
	}
	for (int b = 0; !err && b < ddp->bucket_count; b++) {
		next_shard(ddp, b, &shard);
		optimizer_update(optimizer, rate, shard.state, shard.count,
			ddp->gradients + shard.offset, values + shard.offset);
		err = gather_shards(ddp, &ddp->buckets[b], values);
	}
	if (err || !ddp->stream)
		return err;
	return ddp->device->ops->join(ddp->device, COMPUTATION);
}

int zero_gather_state(struct ddp *ddp, const struct optimizer *optimizer, int number)
{
	struct device *device = ddp->device;
	struct shard shard = { 0 };
	int err = 0;
	for (int b = 0; !err && b < ddp->bucket_count; b++) {
		next_shard(ddp, b, &shard);
		device->ops->copy(device, ddp->gradients + shard.offset,
			optimizer->state[number] + shard.state, shard.count * sizeof(float));
		err = gather_shards(ddp, &ddp->buckets[b], ddp->gradients);
	}
	if (err || !ddp->stream)
		return err;
	return device->ops->join(device, COMPUTATION);
}

void zero_take_state(struct ddp *ddp, struct optimizer *optimizer, int number)
{
	struct device *device = ddp->device;
	struct shard shard = { 0 };
	for (int b = 0; b < ddp->bucket_count; b++) {
		next_shard(ddp, b, &shard);
		device->ops->copy(device, optimizer->state[number] + shard.state,
			ddp->gradients + shard.offset, shard.count * sizeof(float));
	}
}
