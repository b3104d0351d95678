/* Times of buckets, from moments that the device records. They are read when the same set of
   moments is needed again, two steps later: on a GPU the host does not wait for them. */
#ifndef TRAIN_PARALLEL_TIMES_H
#define TRAIN_PARALLEL_TIMES_H

#include "train/parallel/ddp.h"

/* Moments of a bucket. */
enum bucket_moment { BUCKET_READY, BUCKET_STARTED, BUCKET_ENDED, BUCKET_MOMENTS };
/* Moments of the computation. */
enum step_moment { STEP_BEGAN, STEP_PAUSED, STEP_RESUMED, STEP_MOMENTS };

/* Room for the moments of ddp->bucket_count buckets. */
int times_open(struct ddp *ddp);
/* The step begins: takes the times of the step before the last. */
void times_begin(struct ddp *ddp);
void times_bucket(
	struct ddp *ddp, enum track track, const struct bucket *bucket, enum bucket_moment moment);
void times_step(struct ddp *ddp, enum step_moment moment);
/* All moments of the step are recorded. */
void times_end(struct ddp *ddp);

#endif
