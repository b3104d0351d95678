#include "train/parallel/reduce.h"

#include "train/base/fail.h"
#include "train/parallel/times.h"
#include "train/parallel/tree.h"

#define SHARD_UNIT (64 / sizeof(float))

int ddp_start(struct ddp *ddp, const struct bucket *bucket)
{
	int err = ddp->device->ops->join(ddp->device, COMMUNICATION);
	if (!err)
		times_bucket(ddp, COMMUNICATION, bucket, BUCKET_STARTED);
	return err;
}

void shard_of(
	const struct ddp *ddp, const struct bucket *bucket, int rank, size_t *first, size_t *count)
{
	*first = 0;
	*count = bucket->count;
	if (!ddp->config.zero)
		return;
	if (ddp->config.deterministic) {
		tree_shard(ddp->world->size, rank, first, count);
		return;
	}
	size_t units = bucket->count / SHARD_UNIT, size = ddp->world->size;
	*first = units * rank / size * SHARD_UNIT;
	*count = units * (rank + 1) / size * SHARD_UNIT - *first;
}

/* Fills ddp->shard_counts. Returns where this rank's shard begins in the bucket. */
static size_t count_shards(struct ddp *ddp, const struct bucket *bucket)
{
	size_t mine = 0, first;
	for (int rank = 0; rank < ddp->world->size; rank++) {
		shard_of(ddp, bucket, rank, &first, &ddp->shard_counts[rank]);
		if (rank == ddp->world->rank)
			mine = first;
	}
	return mine;
}

int reduce_bucket(struct ddp *ddp, const struct bucket *bucket, void *buffer, rondo_type type)
{
	rondo_comm *comm = ddp->world->comm;
	bool to_shards = ddp->config.zero && !ddp->config.whole_sums;
	int err;
	if (ddp->tree && to_shards) {
		err = tree_reduce_scatter(ddp->tree, buffer, bucket->count, ddp->stream);
	} else if (ddp->tree) {
		err = tree_all_reduce(ddp->tree, buffer, bucket->count, ddp->stream);
	} else if (to_shards) {
		size_t mine = count_shards(ddp, bucket) * rondo_type_size(type);
		err = rondo_reduce_scatter_v(comm, buffer, (char *)buffer + mine, ddp->shard_counts,
			type, RONDO_SUM, ddp->stream);
	} else {
		err = rondo_all_reduce(
			comm, buffer, buffer, bucket->count, type, RONDO_SUM, ddp->stream);
	}
	return err ? fail_comm(err, "sum of gradients") : 0;
}

int gather_shards(struct ddp *ddp, const struct bucket *bucket, float *values)
{
	float *range = values + bucket->offset;
	if (!ddp->stream)
		return 0;
	int err = ddp->device->ops->join(ddp->device, COMMUNICATION);
	if (err)
		return err;
	if (ddp->tree) {
		err = tree_all_gather(ddp->tree, range, bucket->count, ddp->stream);
	} else {
		size_t mine = count_shards(ddp, bucket);
		err = rondo_all_gather_v(ddp->world->comm, range + mine, range, ddp->shard_counts,
			NULL, RONDO_F32, ddp->stream);
	}
	return err ? fail_comm(err, "gather of shards") : 0;
}
