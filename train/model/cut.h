/* Cutting a network into the stages of a pipeline. */
#ifndef TRAIN_MODEL_CUT_H
#define TRAIN_MODEL_CUT_H

#include "train/model/networks.h"

/*
 * Cuts into stages of about equal work: stage s has layers first[s] to first[s + 1] - 1, which are
 * first_layer and last_layer of its model_config. All ranks cut alike. Fails if there are fewer
 * layers than stages. config: the tensor group counts.
 */
int network_cut(const struct network *network, struct device *device, const struct samples *samples,
	const struct model_config *config, int stages, int *first /* [stages + 1] */);

#endif
