/*
 * Two runs of the same training, compared step by step.
 *
 * Compared at their ends, they would show what training makes of rounding. Where two elements of a
 * max-pooling's window are equal but for rounding, or the input of a ReLU is zero but for it, the
 * gradient takes one way or the other: a step then differs by a thousand times the rounding, and
 * the next steps enlarge that. So each step of the second run begins at the parameters at which the
 * first run's began. Its loss does not jump there and differs by rounding alone; its update may
 * differ by a few such ways of very many, and is compared as a whole.
 */
#ifndef TRAIN_STEPS_H
#define TRAIN_STEPS_H

#include "train/job.h"
#include "train/rounding.h"

/*
 * Bounds for runs that differ in the order of sums alone. Both runs round a loss; convnet has the
 * longest sums, and gpt the largest losses. An update differs by such roundings as well, and where
 * two elements of a max-pooling's window are equal but for them, by the gradient of that window.
 * lenet's last pooling has the fewest windows, 16 * 5 * 5 for each of 8 samples. Where their
 * gradients are alike, one that goes another way is sqrt(2 / windows) of the update. In each step
 * rounding, some 2^-20 of an element, decides over few: four are allowed for.
 */
#define STEP_LOSS_BOUND (2 * LIKELY_ROUNDING(25 + 16 * 25 + 1568, 6))
#define STEP_UPDATE_BOUND sqrt(4 * 2 / (8 * 16 * 5 * 5.0))

/* How far a run's steps are from those of the first run, at most. */
struct step_errors {
	double loss; /* of the mean loss */
	double update; /* of all parameters' updates: the norm of the difference, as a part */
};

/* Runs both jobs, each on its number of ranks and for `steps` steps, and tests both at the first
   one's last parameters. The model has at most PARAMETERS. Sets `change` and `before_test` of the
   jobs. */
struct step_errors compare_steps(
	struct job *first, int first_size, struct job *second, int second_size, int steps);

#endif
