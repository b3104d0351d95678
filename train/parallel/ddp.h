/*
 * Data-parallel training over Rondo's public header: every rank holds the model, computes gradients
 * on its own samples, and all ranks add them up.
 *
 *     ddp_create(&ddp, &world, device, &model->parameters, &config);
 *     for each step:
 *             ddp_begin(ddp, 0, 1);
 *             model_loss_grad(..., 1 / samples of the step, on all ranks together);
 *             model_backward(..., ddp_ready, ddp);
 *             ddp_wait(ddp);
 *             optimizer_step(...);
 *
 * Gradients are sums over ranks. With the loss scaled by 1 / samples as above, the sum is the mean,
 * also where ranks have different numbers of samples.
 *
 * Gradients lie as the parameters do, and buckets are ranges of them, from the last tensor to the
 * first: backward's order, where tensors are in forward's. Each tensor, and so each bucket, begins
 * at a multiple of 64 bytes. A bucket's communication starts on a stream once its last gradient is
 * computed, while backward continues (Li et al.: "PyTorch Distributed: Experiences on Accelerating
 * Data Parallel Training", 2020). No copy is made.
 *
 * On a GPU all of this is queued, and the host runs at most two steps ahead. Events let a bucket
 * wait for its gradients, and the optimizer for the last bucket.
 *
 * A single rank communicates nothing. One thread uses a ddp. Functions that return int return 0, or
 * an error whose reason failure() holds; after one, the ddp is only destroyed.
 */
#ifndef TRAIN_DDP_H
#define TRAIN_DDP_H

#include <stdbool.h>
#include <stddef.h>
#include <rondo.h>

#include "train/device/device.h"
#include "train/model/tensor.h"
#include "train/world/world.h"

struct ddp;

/* Moments of a bucket in a step, in seconds since the last micro-batch's ddp_begin(). */
struct bucket_times {
	double ready_s; /* its last gradient is computed */
	double launched_s; /* its communication begins: the buckets before it are done */
	double done_s; /* its communication ends */
	double exposed_s; /* length of that during which the computation waited */
};

struct bucket {
	int number;
	size_t offset, count; /* elements: a range of ddp->gradients and of the parameters */
	int first, last; /* tensors in it */
	int pending; /* of these, not produced yet */
	struct bucket_times sums; /* over ddp->timed_steps */
};

/* The communication of buckets; hook.h has those of rondo-train. */
struct ddp_hook {
	/* Called when a bucket is full, in the order of buckets. Queues work on the computation
	   track, then calls ddp_start(), then queues communication on ddp->stream. */
	int (*launch)(struct ddp *ddp, const struct bucket *bucket, void *argument);
	/* NULL, or called for each bucket by ddp_wait(): later operations on the computation track
	   find the communication done. */
	void (*finish)(struct ddp *ddp, const struct bucket *bucket, void *argument);
	void *argument;
};

struct ddp_config {
	size_t bucket_size; /* bytes a bucket holds at most, unless one tensor alone is larger */
	int micro_batches; /* at most, in a step; 0: one */
	bool no_overlap; /* all buckets are launched after backward, for comparison */
	/* Tensors without a gradient after backward get zeros. Else they are an error. */
	bool find_unused;
	bool zero; /* a rank gets the sums of its shards alone, and updates these: see zero.h */
	bool whole_sums; /* with zero: every rank gets all sums, too */
	bool deterministic; /* sums in a tree over micro-batches and ranks: see tree.h */
	/* NULL, or a ddp of the same device whose stream this one uses, and which outlives it. This
	   one measures no times. */
	struct ddp *beside;
	struct ddp_hook hook; /* launch NULL: hook_sum() */
	/* NULL, or called with the times of each step some steps later, on the caller's thread;
	   start_s: clock_seconds() at ddp_begin(). */
	void (*timed)(void *argument, const struct bucket *bucket, double start_s,
		const struct bucket_times *times);
	void *timed_argument;
};

struct ddp {
	const struct train_world *world;
	struct device *device;
	const struct tensors *parameters;
	struct ddp_config config;
	rondo_stream *stream; /* NULL: alone */
	float *gradients; /* [parameters->elements], zero between tensors */
	float *partial; /* [levels][parameters->elements], see below; NULL: none */
	struct tree *tree; /* NULL: not deterministic, or alone */
	size_t *shard_counts; /* [world->size], scratch */
	struct bucket *buckets; /* [bucket_count] */
	int bucket_count;
	struct ddp_tensor {
		size_t offset; /* of its gradient */
		int bucket;
		bool produced; /* in this micro-batch */
	} * tensors; /* [parameters->count] */
	int micro_batch, micro_batches; /* the one under way, from 0, and of this step */
	int launched; /* buckets whose communication was started in this step */
	/* Times: see times.h. */
	int turn; /* 0 or 1: the set of moments that this step records */
	bool noted[2]; /* by turn: times are not added up yet */
	double start_s[2]; /* likewise: clock_seconds() at ddp_begin() */
	double busy_s, wait_s; /* since the last ddp_times() */
	long timed_steps;
};

/* Places the gradients: sets each tensor's `grad`. world, device and parameters outlive the ddp. */
int ddp_create(struct ddp **ddp, const struct train_world *world, struct device *device,
	const struct tensors *parameters, const struct ddp_config *config);
/* Waits for communication under way. Accepts NULL. */
void ddp_destroy(struct ddp *ddp);

/*
 * Call it before backward of micro-batch `number` of the `count` of this step: 0 of 1, where the
 * step is not divided. Gradients add up, and the last micro-batch alone communicates (PyTorch:
 * no_sync()).
 */
int ddp_begin(struct ddp *ddp, int number, int count);
/* Reports that a tensor's gradient is final: the model_ready for backward. `ddp` is a struct
   ddp. */
int ddp_ready(void *ddp, int tensor);
/* Declares that backward will not produce this tensor's gradient: it is zero. So its bucket need
   not wait for the end of backward, as with find_unused. */
int ddp_unused(struct ddp *ddp, int tensor);
/* Call it after the last backward of the step: later computation finds the sums over all ranks. */
int ddp_wait(struct ddp *ddp);

/* For hooks: later work on ddp->stream finds this bucket's gradients. Once for each launch.
   (reduce.c) */
int ddp_start(struct ddp *ddp, const struct bucket *bucket);

/*
 * Seconds of communication since the last call, and of computation that waited for it. Adds up the
 * times of buckets. Waits for communication under way.
 */
int ddp_times(struct ddp *ddp, double *busy_s, double *wait_s);

/*
 * Gradients of micro-batches, added up tensor by tensor while backward continues.
 *
 * Usually the first micro-batch writes ddp->gradients, and the later ones ddp->partial, which is
 * added. A deterministic ddp adds in a binary tree: micro-batches 0 and 1, 2 and 3, then both
 * pairs, and so on. Level l of ddp->partial holds the sum of 2^l micro-batches that waits for the
 * next 2^l.
 */

/* Room of ddp->partial for config.micro_batches. */
int accumulate_levels(const struct ddp_config *config);
/* The place where this micro-batch's gradients lie: [parameters->elements]. */
float *accumulate_target(const struct ddp *ddp);
/* Adds what this micro-batch wrote at `offset` to earlier ones' sums. */
void accumulate(struct ddp *ddp, size_t offset, size_t count);

#endif
