#include "train/parallel/hook.h"

#include <stdlib.h>

#include "train/base/fail.h"
#include "train/parallel/reduce.h"

int hook_sum(struct ddp *ddp, const struct bucket *bucket, void *unused)
{
	(void)unused;
	int err = ddp_start(ddp, bucket);
	return err ? err : reduce_bucket(ddp, bucket, ddp->gradients + bucket->offset, RONDO_F32);
}

struct compression {
	struct device *device;
	rondo_type type;
	uint16_t *halves; /* [elements], laid out as the gradients */
};

int compression_create(
	struct compression **out, struct device *device, size_t elements, rondo_type type)
{
	struct compression *compression = calloc(1, sizeof(*compression));
	*out = NULL;
	if (!compression)
		return fail("out of memory");
	*compression = (struct compression){ .device = device, .type = type };
	int err = device->ops->alloc(
		device, (void **)&compression->halves, elements * sizeof(*compression->halves));
	if (err)
		compression_destroy(compression);
	else
		*out = compression;
	return err;
}

void compression_destroy(struct compression *compression)
{
	if (!compression)
		return;
	compression->device->ops->free(compression->device, compression->halves);
	free(compression);
}

static int launch(struct ddp *ddp, const struct bucket *bucket, void *argument)
{
	struct compression *compression = argument;
	uint16_t *halves = compression->halves + bucket->offset;
	ddp->device->ops->convert(ddp->device, bucket->count, RONDO_F32,
		ddp->gradients + bucket->offset, compression->type, halves);
	int err = ddp_start(ddp, bucket);
	return err ? err : reduce_bucket(ddp, bucket, halves, compression->type);
}

static void finish(struct ddp *ddp, const struct bucket *bucket, void *argument)
{
	struct compression *compression = argument;
	size_t first, count;
	shard_of(ddp, bucket, ddp->world->rank, &first, &count);
	first += bucket->offset;
	ddp->device->ops->convert(ddp->device, count, compression->type,
		compression->halves + first, RONDO_F32, ddp->gradients + first);
}

struct ddp_hook compression_hook(struct compression *compression)
{
	return (struct ddp_hook){ .launch = launch, .finish = finish, .argument = compression };
}
