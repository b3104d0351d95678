#include "train/parallel/statistics.h"

#include <rondo.h>

#include "train/base/fail.h"
#include "train/parallel/ddp.h"

int statistics_sum(void *argument, double *values, size_t count)
{
	const struct ddp *ddp = argument;
	struct device *device = ddp->device;
	if (!ddp->stream)
		return 0;
	int err = device->ops->join(device, COMMUNICATION);
	if (err)
		return err;
	err = rondo_all_reduce(
		ddp->world->comm, values, values, count, RONDO_F64, RONDO_SUM, ddp->stream);
	return err ? fail_comm(err, "sum of batch norm") : device->ops->join(device, COMPUTATION);
}

int statistics_broadcast(const struct train_world *world, struct model *model)
{
	const struct tensors *buffers = &model->buffers;
	int err = buffers->elements ? model->device->ops->wait(model->device) : 0;
	if (err || !buffers->elements)
		return err;
	return world_broadcast(world, buffers->values, buffers->elements * sizeof(float));
}
