#include "train/parallel/accumulate.h"

int accumulate_levels(const struct ddp_config *config)
{
	int levels = 0;
	if (!config->deterministic)
		return config->micro_batches > 1;
	while (1 << levels < config->micro_batches)
		levels++;
	return levels;
}

/* The sums that this micro-batch completes: one for each trailing 1 of its number. */
static int completed(int number)
{
	int levels = 0;
	for (; number & 1; number >>= 1)
		levels++;
	return levels;
}

static float *level(const struct ddp *ddp, int number)
{
	return ddp->partial + number * ddp->parameters->elements;
}

float *accumulate_target(const struct ddp *ddp)
{
	int number = ddp->micro_batch;
	if (!ddp->config.deterministic)
		return number ? ddp->partial : ddp->gradients;
	return number == ddp->micro_batches - 1 ? ddp->gradients : level(ddp, completed(number));
}

void accumulate(struct ddp *ddp, size_t offset, size_t count)
{
	struct device *device = ddp->device;
	float *target = accumulate_target(ddp) + offset, *sum = ddp->gradients + offset;
	if (!ddp->config.deterministic) {
		if (target != sum)
			device->ops->add(device, count, sum, target, sum);
		return;
	}
	for (int l = 0; l < completed(ddp->micro_batch); l++)
		device->ops->add(device, count, level(ddp, l) + offset, target, target);
}
