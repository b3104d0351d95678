#include "exec/vcounts.h"

#include <stdlib.h>

#include "exec/exec.h"

struct rd_terms *rd_terms_create(int in_blocks, int out_blocks)
{
	struct rd_terms *terms;
	struct rd_extent *extents;

	terms = calloc(1, sizeof(*terms) + (in_blocks + out_blocks) * sizeof(*extents));
	if (!terms)
		return NULL;
	if (in_blocks + out_blocks == 0)
		return terms;
	extents = (struct rd_extent *)(terms + 1);
	terms->in = extents;
	terms->out = extents + in_blocks;
	return terms;
}

void rd_terms_destroy(const struct rd_terms *terms)
{
	if (!terms)
		return;
	free(terms->scaled);
	free((void *)terms);
}

size_t rd_terms_block_size(const struct rd_call *call, int block)
{
	int in = rd_in_block(&call->problem, block);

	if (in >= 0)
		return call->terms->in[in].size;

	int out = rd_out_block(&call->problem, block);

	return out >= 0 ? call->terms->out[out].size : 0;
}

size_t rd_extents_end(const struct rd_extent *extents, int blocks)
{
	size_t end = 0;

	for (int i = 0; i < blocks; i++)
		if (end < extents[i].offset + extents[i].size)
			end = extents[i].offset + extents[i].size;
	return end;
}

size_t rd_call_in_size(const struct rd_call *call)
{
	int blocks = rd_in_blocks(&call->problem);

	if (call->terms && call->terms->in)
		return rd_extents_end(call->terms->in, blocks);
	return (size_t)blocks * call->count * rondo_type_size(call->type);
}

size_t rd_call_out_size(const struct rd_call *call)
{
	int blocks = rd_out_blocks(&call->problem);

	if (call->terms && call->terms->out)
		return rd_extents_end(call->terms->out, blocks);
	return (size_t)blocks * call->count * rondo_type_size(call->type);
}
