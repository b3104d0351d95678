/* Checkpoints of a run: where it starts, and where it saves. Collective, all of it. */
#ifndef TRAIN_RESUME_H
#define TRAIN_RESUME_H

#include <stdbool.h>

#include "train/train.h"

/* Reads options->resume on rank 0, and takes its settings on all ranks. Without it: nothing. */
int resume_load(struct train *train);
/* Copies parameters and buffers into the model, the same on every rank. */
int resume_model(struct train *train);
/* Fails if the checkpoint lies between two steps of this run. */
int resume_check(const struct train *train);
/* Copies the optimizer's state. */
int resume_optimizer(struct train *train);

/* Starts to save, if options->checkpoint is given. Waits for the save before. */
int resume_save(struct train *train);
/* Prints a line for a save that has ended, of an epoch or of SIGTERM; `wait`: waits for one under
   way. */
int resume_saved(struct train *train, bool wait);
/* Writes options->export, if that is given. */
int resume_export(struct train *train);

#endif
