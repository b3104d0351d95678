#include "train/parallel/turns.h"

int turns_passes(enum pipeline_schedule schedule, int stage, int stages, int micro_batches)
{
	int behind = stages - stage;
	return schedule == PIPELINE_GPIPE || micro_batches < behind ? micro_batches : behind;
}

void turns_of(enum pipeline_schedule schedule, int stage, int stages, int micro_batches,
	struct turn *turns)
{
	int passes = turns_passes(schedule, stage, stages, micro_batches);
	int forward = 0, backward = 0;
	while (backward < micro_batches) {
		bool is_full = forward - backward == passes || forward == micro_batches;
		*turns++ = is_full ? (struct turn){ true, backward++ }
				   : (struct turn){ false, forward++ };
	}
}
