#include "train/data/sampler.h"

#include <stdlib.h>

#include "train/base/fail.h"
#include "train/base/rng.h"

int sampler_create(struct sampler **out, size_t count, size_t global_batch, int rank, int size)
{
	struct sampler *sampler = calloc(1, sizeof(*sampler));
	*out = NULL;
	if (!sampler)
		return fail("out of memory");
	*sampler = (struct sampler){
		.count = count, .global_batch = global_batch, .rank = rank, .size = size, .parts = 1
	};
	sampler->order = calloc(count, sizeof(*sampler->order));
	sampler->picks = calloc(sampler_batch_max(sampler), sizeof(*sampler->picks));
	if (!sampler->order || !sampler->picks) {
		sampler_destroy(sampler);
		return fail("out of memory for the order of %zu images", count);
	}
	sampler_sort(sampler);
	*out = sampler;
	return 0;
}

void sampler_destroy(struct sampler *sampler)
{
	if (!sampler)
		return;
	free(sampler->order);
	free(sampler->picks);
	free(sampler);
}

int sampler_divide(struct sampler *sampler, int parts, bool rank_by_rank)
{
	sampler->parts = parts;
	sampler->rank_by_rank = rank_by_rank;
	free(sampler->picks);
	sampler->picks = calloc(sampler_batch_max(sampler), sizeof(*sampler->picks));
	return sampler->picks ? 0 : fail("out of memory for a batch");
}

void sampler_sort(struct sampler *sampler)
{
	for (size_t i = 0; i < sampler->count; i++)
		sampler->order[i] = i;
}

void sampler_shuffle(struct sampler *sampler, uint64_t seed, uint64_t epoch)
{
	/* Stream 0 of the seed drew the parameters. */
	struct rng rng = rng_make(seed, epoch + 1);
	/* From the sorted order, so that an epoch's does not depend on those before it. */
	sampler_sort(sampler);
	for (size_t left = sampler->count; left > 1; left--) {
		size_t other = rng_below(&rng, left);
		uint32_t last = sampler->order[left - 1];
		sampler->order[left - 1] = sampler->order[other];
		sampler->order[other] = last;
	}
}

size_t sampler_steps(const struct sampler *sampler)
{
	return (sampler->count + sampler->global_batch - 1) / sampler->global_batch;
}

size_t sampler_global_count(const struct sampler *sampler, size_t step)
{
	size_t left = sampler->count - step * sampler->global_batch;
	return left < sampler->global_batch ? left : sampler->global_batch;
}

/* The place of a part among all parts of all ranks. */
static size_t part_number(const struct sampler *sampler, int part)
{
	return sampler->rank_by_rank ? (size_t)sampler->rank * sampler->parts + part
				     : (size_t)part * sampler->size + sampler->rank;
}

size_t sampler_pick(struct sampler *sampler, size_t step)
{
	const uint32_t *batch = sampler->order + step * sampler->global_batch;
	size_t global_count = sampler_global_count(sampler, step), count = 0;
	size_t stride = (size_t)sampler->size * sampler->parts;
	for (int part = 0; part < sampler->parts; part++)
		for (size_t i = part_number(sampler, part); i < global_count; i += stride)
			sampler->picks[count++] = batch[i];
	return count;
}

/* Elements of a batch of `count` that this part gets. */
static size_t dealt(const struct sampler *sampler, size_t count, int part)
{
	size_t first = part_number(sampler, part), stride = (size_t)sampler->size * sampler->parts;
	return first < count ? (count - first - 1) / stride + 1 : 0;
}

size_t sampler_batch_max(const struct sampler *sampler)
{
	return sampler_part_max(sampler) * sampler->parts;
}

size_t sampler_part_count(const struct sampler *sampler, size_t step, int part)
{
	return dealt(sampler, sampler_global_count(sampler, step), part);
}

size_t sampler_part_total(const struct sampler *sampler, size_t step, int part)
{
	struct sampler other = *sampler;
	size_t total = 0;
	for (other.rank = 0; other.rank < other.size; other.rank++)
		total += sampler_part_count(&other, step, part);
	return total;
}

size_t sampler_part_max(const struct sampler *sampler)
{
	size_t parts = (size_t)sampler->size * sampler->parts;
	return (sampler->global_batch + parts - 1) / parts;
}
