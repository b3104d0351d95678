/* Sums of a bucket over ranks, for hooks, and the shards of a bucket. */
#ifndef TRAIN_PARALLEL_REDUCE_H
#define TRAIN_PARALLEL_REDUCE_H

#include "train/parallel/ddp.h"

/*
 * Queues the sum over ranks of buffer[bucket->count], in place, on ddp->stream. If config.zero is
 * set without whole_sums, only this rank's shard holds it afterwards, and the rest is undefined.
 */
int reduce_bucket(struct ddp *ddp, const struct bucket *bucket, void *buffer, rondo_type type);

/* Copies each rank's shard of the bucket in values[parameters->elements] to all ranks. Joins the
   tracks, and queues it on the stream. */
int gather_shards(struct ddp *ddp, const struct bucket *bucket, float *values);

/*
 * The shard of a rank: a range of the bucket that begins at a multiple of 64 bytes. Shards of a
 * bucket differ by 64 bytes at most. Without config.zero, the whole bucket.
 */
void shard_of(const struct ddp *ddp, const struct bucket *bucket, int rank,
	size_t *first /* from bucket->offset */, size_t *count);

#endif
