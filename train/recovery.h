/*
 * Going on after a rank's death, with --shrink. Each rank keeps a copy of its last step on the
 * host. The ranks that are left shrink their comm, create the run again, and take the latest copy
 * that one of them has. A step that some had not ended is lost, or is everywhere.
 */
#ifndef TRAIN_RECOVERY_H
#define TRAIN_RECOVERY_H

#include "train/train.h"

struct recovery {
	int global_batch; /* of the run, which stays; 0: there was none */
	struct recovery_point {
		int64_t step; /* the last one done */
		int64_t last_step, optimizer_step;
		uint64_t epochs;
		float scale; /* of the loss */
		int good_steps;
	} point;
	float *parameters, *buffers, *state[2]; /* on the host; NULL: no step is kept */
};

/* Accepts one without a step. */
void recovery_finish(struct recovery *recovery);

/* After a step: keeps it. */
int recovery_keep(struct recovery *recovery, struct train *train);

/* Whether ranks have died, and this one is in a comm of those that are left. Prints why it is
   not. */
bool recovery_shrink(struct train_world *world);

/* The run that was created again continues from the latest step of all ranks. Collective. */
int recovery_restore(struct recovery *recovery, struct train *train);

#endif
