/* A training run on one rank of a world, from data to checkpoint. */
#ifndef TRAIN_TRAIN_H
#define TRAIN_TRAIN_H

#include "data.h"
#include "ddp.h"
#include "model.h"
#include "options.h"
#include "report.h"
#include "sampler.h"
#include "world.h"

struct train {
	struct options options; /* all options set */
	const struct train_world *world;
	struct device *device;
	struct report *report;
	struct data *train_data, *test_data;
	struct sampler *train_sampler, *test_sampler;
	struct model *model;
	struct ddp *ddp;
	/* This rank's share of a step, [batch][rows * columns] and [batch], on the host and on the
	   device; the same memory if the device is the host. */
	float *host_images, *images;
	uint8_t *host_labels, *labels;
	uint64_t epochs; /* epochs done */
};

/*
 * Loads the data, creates the model (from options->resume, if given) and the rest. Collective, as
 * all that follows.
 */
int train_create(struct train **train, const struct options *options,
	const struct train_world *world, struct device *device, struct report *report);
void train_destroy(struct train *train);

/* Runs one step on all ranks; adds this rank's part to *score, which may be NULL. A score waits for
   the step. */
int train_step(struct train *train, size_t step, struct schedule *schedule);
/* Runs one epoch: all steps, the reports, the test, the checkpoint. */
int train_epoch(struct train *train);
/* The score of the test set, over all ranks. */
int train_test(struct train *train, struct schedule *schedule);
/* The hash of the parameters; fails if ranks differ. */
int train_hash(struct train *train, uint64_t *hash);

#endif
