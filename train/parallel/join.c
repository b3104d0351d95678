#include "train/parallel/join.h"

#include <stdlib.h>

#include "train/base/fail.h"

struct join {
	struct ddp *ddp;
	double *samples; /* in the device's memory: this rank's, then the sum */
};

int join_create(struct join **out, struct ddp *ddp)
{
	struct join *join = calloc(1, sizeof(*join));
	*out = NULL;
	if (!join)
		return fail("out of memory");
	join->ddp = ddp;
	int err = ddp->device->ops->alloc(
		ddp->device, (void **)&join->samples, sizeof(*join->samples));
	if (err)
		join_destroy(join);
	else
		*out = join;
	return err;
}

void join_destroy(struct join *join)
{
	if (!join)
		return;
	join->ddp->device->ops->free(join->ddp->device, join->samples);
	free(join);
}

/* Starts the sum of the counts. */
static int send_count(struct join *join, double samples)
{
	struct ddp *ddp = join->ddp;
	struct device *device = ddp->device;
	device->ops->put(device, join->samples, &samples, sizeof(samples));
	int err = ddp->stream ? device->ops->join(device, COMMUNICATION) : 0;
	if (err || !ddp->stream)
		return err;
	err = rondo_all_reduce(ddp->world->comm, join->samples, join->samples, 1, RONDO_F64,
		RONDO_SUM, ddp->stream);
	return err ? fail_comm(err, "sum of the counts of samples") : 0;
}

int join_begin(struct join *join, size_t samples)
{
	struct ddp *ddp = join->ddp;
	int err = send_count(join, (double)samples);
	if (!err)
		err = ddp_begin(ddp, 0, 1);
	for (int t = ddp->parameters->count - 1; !err && !samples && t >= 0; t--)
		err = ddp_unused(ddp, t);
	return err;
}

int join_wait(struct join *join, size_t *samples)
{
	struct ddp *ddp = join->ddp;
	struct device *device = ddp->device;
	double sum = 0;
	int err = ddp_wait(ddp);
	if (!err)
		err = device->ops->get(device, &sum, join->samples, sizeof(sum));
	*samples = (size_t)sum;
	if (!err && sum > 0)
		device->ops->scale(
			device, ddp->parameters->elements, (float)(1 / sum), ddp->gradients);
	return err;
}
