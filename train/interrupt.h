/*
 * SIGTERM in a run that saves checkpoints. The ranks agree on a step after which they save and end.
 * One of them alone may get the signal. So they ask each other about twice a second, and at least
 * every 16 steps.
 */
#ifndef TRAIN_INTERRUPT_H
#define TRAIN_INTERRUPT_H

#include <stdbool.h>
#include <stdint.h>

#include "train/world/world.h"

struct interrupt {
	int64_t step; /* of the next question */
	int64_t every; /* steps between questions, the same on all ranks; 0: none was asked */
	double asked_s;
};

/* From now on SIGTERM is noted for this process and those that it forks later, and does nothing
   else. Before the process has threads. */
int interrupt_catch(void);
/* Whether SIGTERM has come, to this process or to one that it shares the note with. */
bool interrupt_came(void);
/* After `step` steps: whether all ranks end here. Collective. */
int interrupt_check(
	struct interrupt *interrupt, const struct train_world *world, int64_t step, bool *stops);

#endif
