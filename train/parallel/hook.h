/* The communication of a bucket: the sum as it is, or with elements of 16 bits. */
#ifndef TRAIN_PARALLEL_HOOK_H
#define TRAIN_PARALLEL_HOOK_H

#include "train/parallel/ddp.h"

/* The launch of a ddp_hook: sums the bucket over all ranks. */
int hook_sum(struct ddp *ddp, const struct bucket *bucket, void *unused);

/*
 * Gradients travel as RONDO_F16 or RONDO_BF16: half the bytes (PyTorch: fp16_compress_hook,
 * bf16_compress_hook). All ranks get the same sums. They are rounded to 16 bits on each rank, and
 * after each addition on the way. An f16 above 65504 is infinite.
 */
struct compression;
/* elements: of all gradients. The device outlives it. */
int compression_create(
	struct compression **compression, struct device *device, size_t elements, rondo_type type);
/* After the ddp that uses it. Accepts NULL. */
void compression_destroy(struct compression *compression);
struct ddp_hook compression_hook(struct compression *compression);

#endif
