/*
 * Divides the images among ranks. Each epoch cuts a seeded permutation into global batches; rank r
 * takes elements r, r + size, ... of each. So the images of a step do not depend on the number of
 * ranks. Each image occurs once an epoch, without padding: the last batch is smaller.
 */
#ifndef TRAIN_SAMPLER_H
#define TRAIN_SAMPLER_H

#include <stddef.h>
#include <stdint.h>

struct sampler {
	uint32_t *order; /* [count] */
	size_t count;
	size_t global_batch;
	int rank, size;
	uint32_t *picks; /* this rank's share of the step, [sampler_batch_max()] */
};

int sampler_create(struct sampler **sampler, size_t count, size_t global_batch, int rank, int size);
void sampler_destroy(struct sampler *sampler);

/* The order of an epoch; the same on every rank. */
void sampler_shuffle(struct sampler *sampler, uint64_t seed, uint64_t epoch);
/* The order of the set itself, as at the beginning. */
void sampler_sort(struct sampler *sampler);

/* Steps in an epoch. */
size_t sampler_steps(const struct sampler *sampler);
/* Images of a step, of all ranks together. */
size_t sampler_global_count(const struct sampler *sampler, size_t step);
/* Fills picks with this rank's share of the step; returns its size, possibly 0. */
size_t sampler_pick(struct sampler *sampler, size_t step);
/* The largest result of sampler_pick(). */
size_t sampler_batch_max(const struct sampler *sampler);

#endif
