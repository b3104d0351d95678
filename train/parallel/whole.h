/* The whole of a model that ranks hold in parts. */
#ifndef TRAIN_PARALLEL_WHOLE_H
#define TRAIN_PARALLEL_WHOLE_H

#include <stdbool.h>

#include "train/model/tensor.h"
#include "train/parallel/groups.h"

/*
 * Gathers the tensors of a replica's ranks on rank 0 of it: each tensor whole, once, in the order
 * of the stages. values[parts->elements]: this rank's, on the host. whole: on rank 0 its list and
 * its values, on the host, for whole_finish(); empty on other ranks and after a failure.
 * Collective over the replica.
 */
int whole_gather(const struct train_world *replica, const struct tensors *parts,
	const float *values, struct tensors *whole);
/* Whether there is more to it than one rank's tensors as they are. */
bool whole_is_divided(const struct train_world *replica, const struct tensors *parts);
void whole_finish(struct tensors *whole);

#endif
