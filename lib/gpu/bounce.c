#include "gpu/bounce.h"

#include "base/error.h"
#include "base/log.h"
#include "gpu/watch.h"

static int grow(struct rd_gpu *gpu, struct rd_bounce *bounce, size_t size)
{
	void *memory;
	int err = gpu->ops->alloc(gpu->device, size, &memory);

	if (err)
		return err;
	if (bounce->memory) {
		rd_gpu_await(gpu, gpu->number - 1);
		gpu->ops->free(bounce->memory);
	}
	bounce->memory = memory;
	bounce->size = size;
	return 0;
}

int rd_bounce_get(struct rd_gpu *gpu, int which, const void *buffer, size_t size, void **at)
{
	struct rd_bounce *bounce = &gpu->bounces[which];
	int err = 0;

	if (!bounce->logged)
		rd_log(RD_INFO, RD_ROUTE,
			"rank %d: other processes cannot map the memory at %p (%s): calls copy it "
			"within the device first",
			gpu->comm->rank, buffer, rondo_last_error());
	bounce->logged = true;
	if (size > bounce->size)
		err = grow(gpu, bounce, size);
	*at = bounce->memory;
	return err;
}

void rd_bounces_free(struct rd_gpu *gpu)
{
	for (int i = 0; i < RD_BOUNCES; i++)
		if (gpu->bounces[i].memory)
			gpu->ops->free(gpu->bounces[i].memory);
}
