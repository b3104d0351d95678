/* Checks that all ranks hold the same model, with the same values, and have the same settings. */
#ifndef TRAIN_PARALLEL_SAME_H
#define TRAIN_PARALLEL_SAME_H

#include "train/model/tensor.h"
#include "train/world/world.h"

#define SAME_LINE (TENSOR_NAME + 64)

/*
 * Fails on all ranks if names, shapes or order of tensors differ. The reason names the first such
 * tensor and two ranks. One rank returns it, and the others RONDO_REVOKED: see world_agree().
 * Collective. Call it before ranks exchange values.
 */
int same_tensors(const struct train_world *world, const struct tensors *tensors);
/* The same for settings, a line of fewer than SAME_LINE bytes each: text[size]. */
int same_settings(const struct train_world *world, const char *text, size_t size);
/*
 * The same for the tensors' values: values[tensors->elements], on the host, laid out as
 * tensors->values. The reason names the ranks whose values are not those of most ranks, by
 * `number`, and the first tensor in which they differ. what: "parameters after step 2". *hash: of
 * all values.
 */
int same_values(const struct train_world *world, int number, const struct tensors *tensors,
	const float *values, const char *what, uint64_t *hash);

#endif
