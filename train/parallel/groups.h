/*
 * The groups of ranks that share the work in three ways (Narayanan et al.: "Efficient Large-Scale
 * Language Model Training on GPU Clusters Using Megatron-LM", 2021):
 *
 *     tensor    each rank has a part of the layers' tensors, and all have the same samples
 *     pipeline  each rank is a stage: some successive layers
 *     data      each rank has the same part of the model, and other samples
 *
 * tensor x pipeline successive ranks hold one replica of the model:
 *
 *     rank = (replica * stages + stage) * tensor size + tensor rank
 *
 * So a replica lies on one host, or in the threads of one process, where it fits.
 */
#ifndef TRAIN_PARALLEL_GROUPS_H
#define TRAIN_PARALLEL_GROUPS_H

#include "train/world/world.h"

struct groups {
	const struct train_world *world; /* all ranks */
	struct train_world tensor, pipeline, data; /* those of this rank; its rank in each */
	struct train_world replica; /* the ranks of this rank's replica */
	struct train_world ends; /* first and last stage, for tensors that both have; size 1: this
				    is neither, or there is one stage */
};

/*
 * Collective. With tensor and stages 1, all ranks are one data group, which shares the world's
 * comm. Fails if tensor x stages does not divide the number of ranks. groups_close() follows a
 * failure, too. The world must outlive the groups.
 */
int groups_open(struct groups *groups, const struct train_world *world, int tensor, int stages);
/* Ends the other ranks' calls in each group and in the world. The reason is failure(). */
void groups_abort(const struct groups *groups);
/*
 * Leaves all groups. err: the result of training. If it is not 0, this rank aborts them, so that
 * ranks that wait in any of them stop, too. Returns err, or if that is 0, the result of leaving.
 */
int groups_close(struct groups *groups, int err);

#endif
