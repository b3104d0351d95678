/*
 * Who trains on which images. An epoch's seeded permutation is cut into global batches; of each,
 * rank r takes elements r, r + size, .... So a step sees the same images however many ranks share
 * it, and each image comes up once an epoch: nothing is padded, the last batch is smaller.
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
/* The order of the set itself, in which it starts. */
void sampler_sort(struct sampler *sampler);

/* Steps in an epoch. */
size_t sampler_steps(const struct sampler *sampler);
/* Images that all ranks together take in a step. */
size_t sampler_global_count(const struct sampler *sampler, size_t step);
/* Fills picks with this rank's share of the step; returns how many, possibly 0. */
size_t sampler_pick(struct sampler *sampler, size_t step);
/* The most that sampler_pick() gives. */
size_t sampler_batch_max(const struct sampler *sampler);

#endif
