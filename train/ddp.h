/*
 * Data-parallel training over Rondo's public header: every rank holds the model, computes gradients
 * on its own images, and all ranks average them.
 *
 * The gradients lie in one buffer, in the order in which backward produces them, cut into buckets.
 * A bucket's all-reduce starts on a stream the moment its last gradient is there, while backward
 * goes on below (Li et al.: "PyTorch Distributed: Experiences on Accelerating Data Parallel
 * Training", 2020). No copy is made: buckets and tensors' gradients are views of that buffer.
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
	double start_s, end_s; /* of its all-reduce; the stream writes them */
};

struct ddp {
	const struct world *world;
	rondo_stream *stream; /* NULL: alone */
	struct tensor *tensors; /* [tensor_count], the model's */
	int tensor_count;
	float *gradients; /* [sum of the tensors' counts] */
	size_t bucket_size; /* bytes a bucket holds at most, unless one tensor alone is larger */
	int order[MODEL_TENSORS_MAX]; /* tensors, as they lie in gradients */
	int seen[MODEL_TENSORS_MAX]; /* tensors, as the first backward produced them */
	int seen_count;
	bool settled; /* order is the one that was seen */
	struct bucket buckets[MODEL_TENSORS_MAX];
	int bucket_count;
	int bucket_of[MODEL_TENSORS_MAX]; /* of each tensor */
	int launched; /* buckets whose all-reduce was started in this step */
	double busy_s; /* the stream spent on all-reduces, since somebody set it to 0 */
	double wait_s; /* ddp_wait() stood still, since somebody set it to 0 */
};

/*
 * Places the gradients of the tensors, last tensor first: a guess at backward's order, which the
 * first step corrects. `order` is what ddp->order was in an earlier run (its sums come out the same
 * to the bit only when they are cut the same way); NULL: none.
 */
int ddp_create(struct ddp **ddp, const struct world *world, struct tensor *tensors,
	int tensor_count, size_t bucket_size, const int *order);
/* Waits for what is on its way. NULL is fine. */
void ddp_destroy(struct ddp *ddp);

/* Before backward. From the second step on, the buckets follow the order that was seen. */
int ddp_begin(struct ddp *ddp);
/* A tensor's gradient is final: a model_ready, to be handed to backward. `ddp` is a struct ddp. */
int ddp_ready(void *ddp, int tensor);
/* After backward: returns when every gradient is the average over all ranks. */
int ddp_wait(struct ddp *ddp);

#endif
