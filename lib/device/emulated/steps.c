/* The kernels of lib/device/cuda/plans.cu on an emulated GPU: channel after channel. */
#include "device/emulated/kernels.h"
#include "device/emulated/machine.h"
#include "device/steps_run.h"
#include "exec/mean.h"
#include "exec/reduce.h"

/* `into` may be an operand, `out` never is. */
static void operate(
	const struct rd_steps *steps, const struct operands *operands, struct elements elements)
{
	size_t size = operands->count * elements.size;
	char *made = operands->into ? operands->into : operands->out;

	if (size == 0 || !made)
		return;
	if (operands->is_mean)
		rd_mean_add(made, operands->a, operands->b, operands->count, steps->type,
			(struct rd_mean_step){ steps->size, operands->a_is_sum, operands->b_is_sum,
				operands->last });
	else if (operands->b)
		rd_reduce(steps->type, steps->op)(made, operands->a, operands->b, operands->count);
	else if (made != operands->a)
		memcpy(made, operands->a, size);
	if (operands->out && operands->out != made)
		memcpy(operands->out, made, size);
}

void rd_emulated_steps(const struct rd_steps *steps)
{
	struct elements elements = { steps->element };
	struct channel shared;

	for (int channel = 0; channel < steps->channels; channel++)
		if (!run_channel(steps, &shared, channel, elements))
			return;
}
