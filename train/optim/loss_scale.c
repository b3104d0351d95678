#include "train/optim/loss_scale.h"

#include <math.h>

#include "train/base/fail.h"

#define FIRST_SCALE 65536
#define GROWTH 2
#define BACKOFF 0.5f
#define GROWTH_STEPS 2000

void loss_scale_init(struct loss_scale *scale, bool on)
{
	*scale = (struct loss_scale){ .on = on, .value = on ? FIRST_SCALE : 1 };
}

int loss_scale_update(struct loss_scale *scale, bool finite)
{
	if (!finite) {
		scale->value *= BACKOFF;
		scale->good_steps = 0;
		scale->skipped++;
	} else if (++scale->good_steps == GROWTH_STEPS) {
		scale->good_steps = 0;
		if (isfinite(scale->value * GROWTH))
			scale->value *= GROWTH;
	}
	return scale->value > 0
		       ? 0
		       : fail("--precision f16: gradients are not finite with any loss scale: "
			      "lower --lr, or train with --precision bf16");
}

void loss_scale_begin(const struct loss_scale *scale, struct optimizer *optimizer)
{
	optimizer->loss_scale = scale->on ? scale->value : 0;
}

int loss_scale_end(struct loss_scale *scale, struct optimizer *optimizer)
{
	struct device *device = optimizer->device;
	float factor;
	if (!scale->on)
		return 0;
	int err = device->ops->get(device, &factor, optimizer->factor, sizeof(factor));
	if (err)
		return err;
	if (isnan(factor))
		optimizer->step--;
	return loss_scale_update(scale, !isnan(factor));
}
