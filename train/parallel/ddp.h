/*
 * Data-parallel training over Rondo's public header: every rank holds the model, computes gradients
 * on its own images, and all ranks average them.
 *
 * The gradients are in one buffer, in backward's order, cut into buckets that begin at multiples of
 * 64 bytes. A bucket's all-reduce starts on a stream once its last gradient is computed, while
 * backward goes on (Li et al.: "PyTorch Distributed: Experiences on Accelerating Data Parallel
 * Training", 2020). No copy is made: buckets and tensors' gradients are views of that buffer.
 *
 * On a GPU all of this is queued, and the host runs at most two steps ahead. Events let a bucket
 * wait for its gradients, and the optimizer for the last bucket.
 *
 *     ddp_begin(ddp);
 *     model_backward(..., ddp_ready, ddp);
 *     ddp_wait(ddp);
 *     optimizer_step(...);
 *
 * A single rank communicates nothing.
 */
#ifndef TRAIN_DDP_H
#define TRAIN_DDP_H

#include <stdbool.h>
#include <stddef.h>
#include <rondo.h>

#include "train/device/device.h"
#include "train/model/tensor.h"
#include "train/world/world.h"

struct ddp_config {
	size_t bucket_size; /* bytes a bucket holds at most, unless one tensor alone is larger */
	const int *order; /* ddp->order of an earlier run; NULL: none */
	bool no_overlap; /* all buckets are launched after backward, for comparison */
};

struct bucket {
	float *grad; /* [count], a view into ddp->gradients */
	size_t count;
	int tensors; /* tensors in it */
	int pending; /* tensors that backward has not produced yet */
};

struct ddp {
	const struct train_world *world;
	struct device *device;
	rondo_stream *stream; /* NULL: alone */
	struct tensor *tensors; /* [tensor_count], the model's */
	int tensor_count;
	float *gradients; /* the buckets', in their order */
	size_t bucket_size;
	bool no_overlap;
	int *order; /* [tensor_count]: tensors, as they lie in gradients */
	int *seen; /* [seen_count]: tensors, as the first backward produced them */
	int seen_count;
	bool settled; /* order equals seen */
	struct bucket *buckets; /* [bucket_count], room for [tensor_count] */
	int bucket_count;
	int *bucket_of; /* [tensor_count] */
	bool *marks; /* [tensor_count]: scratch */
	int launched; /* buckets whose all-reduce was started in this step */
	int turn; /* 0 or 1: the set of moments that this step records */
	int noted[2]; /* by turn: buckets whose times are not added up yet */
	double busy_s, wait_s; /* since the last ddp_times() */
};

/*
 * Places the gradients of the tensors, last tensor first: a guess at backward's order, which the
 * first step corrects. Sums repeat to the bit only with the same buckets.
 */
int ddp_create(struct ddp **ddp, const struct train_world *world, struct device *device,
	struct tensor *tensors, int tensor_count, const struct ddp_config *config);
/* Waits for all-reduces under way. Accepts NULL. */
void ddp_destroy(struct ddp *ddp);

/* Call it before backward. From the second step on, the buckets follow backward's order. */
int ddp_begin(struct ddp *ddp);
/* Reports that a tensor's gradient is final: the model_ready for backward. `ddp` is a struct
   ddp. */
int ddp_ready(void *ddp, int tensor);
/* Call it after backward: later computation finds each gradient averaged over all ranks. */
int ddp_wait(struct ddp *ddp);
/*
 * Seconds of all-reduces since the last call, and of computation that waited for them. Waits for
 * all-reduces under way.
 */
int ddp_times(struct ddp *ddp, double *busy_s, double *wait_s);

#endif
