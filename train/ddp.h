/*
 * Data-parallel training over Rondo's public header: every rank holds the model, computes gradients
 * on its own images, and all ranks average them.
 *
 * The gradients lie in one buffer, in the order in which backward produces them, cut into buckets,
 * each of which begins at a multiple of 64 bytes.
 * A bucket's all-reduce starts on a stream the moment its last gradient is there, while backward
 * goes on below (Li et al.: "PyTorch Distributed: Experiences on Accelerating Data Parallel
 * Training", 2020). No copy is made: buckets and tensors' gradients are views of that buffer.
 *
 * On a GPU all of this is queued, and the host runs ahead of it by two steps at most: a bucket
 * follows its gradients, and the optimizer the last bucket, by events.
 *
 *     ddp_begin(ddp);
 *     model_backward(..., ddp_ready, ddp);
 *     ddp_wait(ddp);
 *     optimizer_step(...);
 *
 * With one rank alone, nothing is communicated.
 */
#ifndef TRAIN_DDP_H
#define TRAIN_DDP_H

#include <stdbool.h>
#include <stddef.h>
#include <rondo.h>

#include "model.h"
#include "world.h"

struct bucket {
	float *grad; /* [count], a view into ddp->gradients */
	size_t count;
	int tensors; /* how many lie in it */
	int pending; /* how many of them backward still owes */
};

struct ddp {
	const struct world *world;
	struct device *device;
	rondo_stream *stream; /* NULL: alone */
	struct tensor *tensors; /* [tensor_count], the model's */
	int tensor_count;
	float *gradients; /* the buckets', in their order */
	size_t bucket_size; /* bytes a bucket holds at most, unless one tensor alone is larger */
	int order[MODEL_TENSORS_MAX]; /* tensors, as they lie in gradients */
	int seen[MODEL_TENSORS_MAX]; /* tensors, as the first backward produced them */
	int seen_count;
	bool settled; /* order is the one that was seen */
	struct bucket buckets[MODEL_TENSORS_MAX];
	int bucket_count;
	int bucket_of[MODEL_TENSORS_MAX]; /* of each tensor */
	int launched; /* buckets whose all-reduce was started in this step */
	int turn; /* 0 or 1: the moments that this step notes */
	int noted[2]; /* by turn: the buckets whose moments are still to be added up */
	double busy_s, wait_s; /* since ddp_times() was asked */
};

/*
 * Places the gradients of the tensors, last tensor first: a guess at backward's order, which the
 * first step corrects. `order` is what ddp->order was in an earlier run (its sums come out the same
 * to the bit only when they are cut the same way); NULL: none.
 */
int ddp_create(struct ddp **ddp, const struct world *world, struct device *device,
	struct tensor *tensors, int tensor_count, size_t bucket_size, const int *order);
/* Waits for what is on its way. NULL is fine. */
void ddp_destroy(struct ddp *ddp);

/* Before backward. From the second step on, the buckets follow the order that was seen. */
int ddp_begin(struct ddp *ddp);
/* A tensor's gradient is final: a model_ready, to be handed to backward. `ddp` is a struct ddp. */
int ddp_ready(void *ddp, int tensor);
/* After backward: what is computed next finds every gradient the average over all ranks. */
int ddp_wait(struct ddp *ddp);
/*
 * Seconds that the all-reduces took since this was asked last, and how long the computation stood
 * still for them. Waits for what is on its way.
 */
int ddp_times(struct ddp *ddp, double *busy_s, double *wait_s);

#endif
