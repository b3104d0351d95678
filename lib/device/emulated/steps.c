/* The kernels of lib/device/cuda/plans.cu on an emulated GPU: channel after channel. */
#include "device/emulated/emulated.h"
#include "device/emulated/machine.h"
#include "device/steps_run.h"
#include "exec/reduce.h"

/* `into` may be an operand, `out` never is. */
static void operate(const struct rd_steps *steps, const struct operands *operands)
{
	size_t size = operands->count * steps->element;
	char *made = operands->into ? operands->into : operands->out;

	if (size == 0 || !made)
		return;
	if (operands->b)
		rd_reduce(steps->type, steps->op)(made, operands->a, operands->b, operands->count);
	else if (made != operands->a)
		memcpy(made, operands->a, size);
	if (operands->divide_by > 1)
		rd_average(made, operands->count, steps->type, operands->divide_by);
	if (operands->out && operands->out != made)
		memcpy(operands->out, made, size);
}

static bool run_piece(
	const struct rd_steps *steps, struct channel *shared, int channel, size_t piece)
{
	for (int i = 0; i < steps->move_count; i++) {
		const struct rd_move *move = &steps->moves[i];

		if (is_empty(steps, move, piece))
			continue;
		if (!begin_move(steps, shared, channel, move, piece))
			return false;
		operate(steps, &shared->operands);
		end_move(steps, shared, channel, move, piece);
	}
	return true;
}

void rd_emulated_steps(const struct rd_steps *steps)
{
	struct channel shared;

	for (int channel = 0; channel < steps->channels; channel++) {
		begin_channel(steps, &shared, channel);
		for (size_t piece = channel; piece < steps->pieces; piece += steps->channels)
			if (!run_piece(steps, &shared, channel, piece))
				return;
		end_channel(steps, &shared, channel);
	}
}
