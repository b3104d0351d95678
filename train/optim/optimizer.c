#include "train/optim/optimizer.h"

void optimizer_step(const struct model *model, float learning_rate)
{
	struct device *device = model->device;
	const struct sgd sgd = { .rate = learning_rate };
	for (int t = 0; t < model->tensor_count; t++) {
		const struct tensor *tensor = &model->tensors[t];
		device->ops->sgd(
			device, &sgd, tensor->count, tensor->grad, NULL, tensor->value, NULL);
	}
}
