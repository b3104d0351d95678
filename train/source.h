/* Finds the data of a run, or draws it. */
#ifndef TRAIN_SOURCE_H
#define TRAIN_SOURCE_H

#include "train/data/data.h"
#include "train/metrics/report.h"
#include "train/options.h"
#include "train/world/world.h"

/*
 * Sets *source to the set of the options, else to any set of `kind`, which is what the model takes.
 * If there is none, and drawing is allowed, rank 0 draws one. `window`: tokens of a text's input.
 * Collective.
 */
int source_find(struct data_source *source, const struct options *options,
	const struct train_world *world, struct report *report, const struct data_kind *kind,
	size_t window);

#endif
