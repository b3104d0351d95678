/* The kernels of lib/device/cuda/plans.cu, done by a thread: a block of one, channel after channel.
 */
#include "device/emulated/emulated.h"
#include "device/emulated/machine.h"
#include "device/steps_run.h"
#include "exec/reduce.h"

/* What is kept may be an operand; what is sent never is. */
static void haul_elements(const struct rd_steps *steps, const struct haul *haul)
{
	size_t size = haul->count * steps->element;
	char *made = haul->into ? haul->into : haul->out;

	if (size == 0 || !made)
		return;
	if (haul->b)
		rd_reduce(steps->type, steps->op)(made, haul->a, haul->b, haul->count);
	else if (made != haul->a)
		memcpy(made, haul->a, size);
	if (haul->divide_by > 1)
		rd_average(made, haul->count, steps->type, haul->divide_by);
	if (haul->out && haul->out != made)
		memcpy(haul->out, made, size);
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
		haul_elements(steps, &shared->haul);
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
