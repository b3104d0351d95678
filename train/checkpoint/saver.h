/* Saves checkpoints from a thread: training continues meanwhile. One thread uses a saver. */
#ifndef TRAIN_CHECKPOINT_SAVER_H
#define TRAIN_CHECKPOINT_SAVER_H

#include <stdbool.h>

#include "train/checkpoint/checkpoint.h"

struct saver;

int saver_create(struct saver **saver, const char *path);
/* Waits for a save under way. Accepts NULL. */
void saver_destroy(struct saver *saver);

/*
 * Begins to save; takes *stored over, but not its tensors' values: these stay as they are until the
 * save has ended. saver_wait() first, if another is under way.
 */
int saver_start(struct saver *saver, struct stored *stored);
/* Whether a save has ended that saver_wait() has not returned yet: it then does not wait. */
bool saver_ended(struct saver *saver);
/* Waits for the save under way, if there is one; returns its result. */
int saver_wait(struct saver *saver);
/* Whether a save was started and not waited for. */
bool saver_busy(const struct saver *saver);

#endif
