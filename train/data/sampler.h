/*
 * Divides the images among ranks. Each epoch cuts a seeded permutation into global batches; rank r
 * takes elements r, r + size, ... of each. So the images of a step do not depend on the number of
 * ranks. Each image occurs once an epoch, without padding: the last batch is smaller.
 *
 * A rank's share may be divided into parts, which are computed one after the other. Then the global
 * batch is dealt out, element by element, to all parts of all ranks. The order of these is part 0
 * of each rank, part 1 of each rank, ...; or all parts of rank 0, all parts of rank 1, .... The
 * second order gives the same parts to one rank with 8, and to 8 ranks with 1 each.
 */
#ifndef TRAIN_SAMPLER_H
#define TRAIN_SAMPLER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct sampler {
	uint32_t *order; /* [count] */
	size_t count;
	size_t global_batch;
	int rank, size;
	int parts; /* of this rank's share */
	bool rank_by_rank; /* the second order of parts */
	uint32_t *picks; /* this rank's share of the step, [sampler_batch_max()] */
};

int sampler_create(struct sampler **sampler, size_t count, size_t global_batch, int rank, int size);
void sampler_destroy(struct sampler *sampler);
/* Divides the shares. Before the first sampler_pick(). */
int sampler_divide(struct sampler *sampler, int parts, bool rank_by_rank);

/* The order of an epoch; the same on every rank. */
void sampler_shuffle(struct sampler *sampler, uint64_t seed, uint64_t epoch);
/* The order of the set itself, as at the beginning. */
void sampler_sort(struct sampler *sampler);

/* Steps in an epoch. */
size_t sampler_steps(const struct sampler *sampler);
/* Images of a step, of all ranks together. */
size_t sampler_global_count(const struct sampler *sampler, size_t step);
/* Fills picks with this rank's share of the step, part by part; returns its size, possibly 0. */
size_t sampler_pick(struct sampler *sampler, size_t step);
/* No sampler_pick() of any rank returns more. */
size_t sampler_batch_max(const struct sampler *sampler);
/* The size of a part of this rank's share of the step, possibly 0. */
size_t sampler_part_count(const struct sampler *sampler, size_t step, int part);
/* The sizes of this part of all ranks, added up. */
size_t sampler_part_total(const struct sampler *sampler, size_t step, int part);
/* No part of any rank is larger. */
size_t sampler_part_max(const struct sampler *sampler);

#endif
