#include "train/optim/optimizer.h"

void optimizer_step(const struct model *model, float learning_rate)
{
	struct device *device = model->device;
	const struct sgd sgd = { .rate = learning_rate };
	for (int t = 0; t < model->parameters.count; t++) {
		const struct tensor *tensor = &model->parameters.list[t];
		device->ops->sgd(
			device, &sgd, tensor->count, tensor->grad, NULL, tensor->value, NULL);
	}
}
