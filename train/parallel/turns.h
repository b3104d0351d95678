/*
 * The turns of a stage of a pipeline: the order in which it takes the micro-batches of a step.
 *
 * GPipe (Huang et al.: "GPipe: Efficient Training of Giant Neural Networks", 2019): all forward,
 * then all backward. 1F1B (Narayanan et al.: "PipeDream", 2019; here with a flush at the end of
 * each step): a stage begins with as many forward as there are stages behind it, then alternates.
 * Both compute the same. 1F1B holds at most as many micro-batches at a time as there are stages.
 */
#ifndef TRAIN_PARALLEL_TURNS_H
#define TRAIN_PARALLEL_TURNS_H

#include <stdbool.h>

enum pipeline_schedule { PIPELINE_1F1B, PIPELINE_GPIPE };

struct turn {
	bool backward;
	int micro_batch;
};

/* Writes turns[2 * micro_batches]. Micro-batches go back in the order in which they came. */
void turns_of(enum pipeline_schedule schedule, int stage, int stages, int micro_batches,
	struct turn *turns);
/* Micro-batches between forward and backward at a time, at most. */
int turns_passes(enum pipeline_schedule schedule, int stage, int stages, int micro_batches);

#endif
