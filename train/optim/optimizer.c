#include "train/optim/optimizer.h"

void optimizer_step(const struct model *model, float learning_rate)
{
	struct device *device = model->device;
	for (int t = 0; t < model->tensor_count; t++) {
		const struct tensor *tensor = &model->tensors[t];
		device->ops->descend(
			device, tensor->count, learning_rate, tensor->grad, tensor->value);
	}
}
