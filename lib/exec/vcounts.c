#include "exec/vcounts.h"

#include <stdlib.h>
#include <string.h>

struct rd_vcounts *rd_vcounts_create(int in_blocks, int out_blocks)
{
	struct rd_vcounts *vcounts;

	vcounts = calloc(1, sizeof(*vcounts) + (in_blocks + out_blocks) * sizeof(*vcounts->in));
	if (!vcounts)
		return NULL;
	vcounts->in = (struct rd_extent *)(vcounts + 1);
	vcounts->out = vcounts->in + in_blocks;
	return vcounts;
}

struct rd_vcounts *rd_vcounts_copy(const struct rd_vcounts *of, int in_blocks, int out_blocks)
{
	struct rd_vcounts *copy = rd_vcounts_create(in_blocks, out_blocks);

	if (!copy)
		return NULL;
	memcpy(copy->in, of->in, (in_blocks + out_blocks) * sizeof(*of->in));
	copy->pairwise = of->pairwise;
	copy->digest = of->digest;
	copy->listed = of->listed;
	return copy;
}

void rd_vcounts_destroy(struct rd_vcounts *vcounts)
{
	free(vcounts);
}

size_t rd_extents_end(const struct rd_extent *extents, int blocks)
{
	size_t end = 0;

	for (int i = 0; i < blocks; i++)
		if (end < extents[i].offset + extents[i].size)
			end = extents[i].offset + extents[i].size;
	return end;
}

size_t rd_extents_total(const struct rd_extent *extents, int blocks)
{
	size_t total = 0;

	for (int i = 0; i < blocks; i++)
		total += extents[i].size;
	return total;
}

size_t rd_vcounts_block_size(
	const struct rd_vcounts *vcounts, const struct rd_problem *problem, int block)
{
	int in = rd_in_block(problem, block);

	if (in >= 0)
		return vcounts->in[in].size;

	int out = rd_out_block(problem, block);

	return out >= 0 ? vcounts->out[out].size : 0;
}
