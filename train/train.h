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
	struct options options; /* with nothing left open */
	const struct world *world;
	struct device *device;
	struct report *report;
	struct data *train_data, *test_data;
	struct sampler *train_sampler, *test_sampler;
	struct model *model;
	struct ddp *ddp;
	/* This rank's share of a step, [batch][rows * columns] and [batch]: on the host, and on the
	   device, which are the same where the device is the host. */
	float *host_images, *images;
	uint8_t *host_labels, *labels;
	uint64_t epochs; /* done so far */
};

/*
 * Gets the data, the model (from options->resume when that is given) and all that training needs.
 * Collective, as is all that follows.
 */
int train_create(struct train **train, const struct options *options, const struct world *world,
	struct device *device, struct report *report);
void train_destroy(struct train *train);

/* One step on all ranks; adds this rank's share of it to *score, unless that is NULL. A score has
   to be waited for. */
int train_step(struct train *train, size_t step, struct schedule *schedule);
/* One epoch: every step, the reports, the test, the checkpoint. */
int train_epoch(struct train *train);
/* What the test set says of the model: over all ranks. */
int train_test(struct train *train, struct schedule *schedule);
/* The hash of the parameters; fails when the ranks do not all have the same. */
int train_hash(struct train *train, uint64_t *hash);

#endif
