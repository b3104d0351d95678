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

/* Sums go to this rank's shard of the buffer. */
static int reduce_to_shard(
	struct ddp *ddp, const struct bucket *bucket, void *buffer, rondo_type type)
{
	size_t mine = 0, first;
	for (int rank = 0; rank < ddp->world->size; rank++) {
		shard_of(ddp, bucket, rank, &first, &ddp->shard_counts[rank]);
		if (rank == ddp->world->rank)
			mine = first;
	}
	return rondo_reduce_scatter_v(ddp->world->comm, buffer,
		(char *)buffer + mine * rondo_type_size(type), ddp->shard_counts, type, RONDO_SUM,
		ddp->stream);
}

int reduce_bucket(struct ddp *ddp, const struct bucket *bucket, void *buffer, rondo_type type)
{
	int err;
	if (ddp->tree && ddp->config.zero)
		err = tree_reduce_scatter(ddp->tree, buffer, bucket->count, ddp->stream);
	else if (ddp->tree)
		err = tree_all_reduce(ddp->tree, buffer, bucket->count, ddp->stream);
	else if (ddp->config.zero)
		err = reduce_to_shard(ddp, bucket, buffer, type);
	else
		err = rondo_all_reduce(ddp->world->comm, buffer, buffer, bucket->count, type,
			RONDO_SUM, ddp->stream);
	return err ? fail_comm(err, "sum of gradients") : 0;
}
