#include "optimizer.h"

void optimizer_step(struct tensor *tensors, int count, float learning_rate)
{
	for (int t = 0; t < count; t++) {
		float *value = tensors[t].value; /* [tensors[t].count] */
		const float *grad = tensors[t].grad; /* [tensors[t].count] */
		for (size_t i = 0; i < tensors[t].count; i++)
			value[i] -= learning_rate * grad[i];
	}
}
