#include "gpu/stage_memory.h"

#include <stdlib.h>

#include "base/error.h"
#include "base/futex.h"
#include "comm/registration.h"
#include "gpu/watch.h"

/* Blocks for collectives under way; a further one waits. */
#define COLLECTIVES_MAX 4

static int make_block(struct rd_stage *stage, size_t size, struct rd_stage_block **made)
{
	struct rd_stage_block *block = calloc(1, sizeof(*block));
	void *memory;
	int err;

	if (!block)
		return rd_fail(RONDO_MEMORY, "no memory to stage calls");
	err = rd_registered_alloc(&memory, size);
	if (!err) {
		err = stage->gpu->ops->share(memory, size);
		if (err)
			rd_registered_free(memory);
	}
	if (err) {
		free(block);
		return err;
	}
	*block = (struct rd_stage_block){ .next = stage->blocks, .memory = memory, .size = size };
	stage->blocks = block;
	*made = block;
	return 0;
}

static void free_block(struct rd_stage *stage, struct rd_stage_block *block)
{
	stage->gpu->ops->unshare(block->memory);
	rd_registered_free(block->memory);
	free(block);
}

/* A call that is further back than the run-ahead is done. Its number says nothing: numbers come
   again. */
static bool is_free(const struct rd_gpu *gpu, const struct rd_stage_block *block)
{
	return !atomic_load(&block->busy) &&
	       (gpu->number - block->number >= RD_RUN_AHEAD ||
		       rd_flag_reached(&gpu->stream_flags->finished, block->number));
}

/* Frees those that are too short for the next call. */
static struct rd_stage_block *find_block(struct rd_stage *stage, size_t size)
{
	for (struct rd_stage_block **at = &stage->blocks; *at;) {
		struct rd_stage_block *block = *at;

		if (!is_free(stage->gpu, block)) {
			at = &block->next;
			continue;
		}
		if (block->size >= size)
			return block;
		*at = block->next;
		free_block(stage, block);
	}
	return NULL;
}

/* A collective may wait for the first one that is under way, which no later call holds up. */
static void await_room(struct rd_stage *stage)
{
	const struct rd_stage_block *first = NULL;
	int under_way = 0;

	for (const struct rd_stage_block *block = stage->blocks; block; block = block->next) {
		if (!block->collective || is_free(stage->gpu, block))
			continue;
		under_way++;
		if (!first || (int32_t)(block->number - first->number) < 0)
			first = block;
	}
	if (under_way >= COLLECTIVES_MAX)
		rd_gpu_await(stage->gpu, first->number);
}

static int get_stage(struct rd_gpu *gpu)
{
	struct rd_stage *stage = gpu->stage;

	if (stage)
		return 0;
	stage = calloc(1, sizeof(*stage));
	if (!stage)
		return rd_fail(RONDO_MEMORY, "no memory to stage calls");
	stage->gpu = gpu;
	gpu->stage = stage;
	return 0;
}

int rd_stage_take(struct rd_gpu *gpu, size_t size, bool collective, struct rd_stage_block **found)
{
	int err = get_stage(gpu);

	if (err)
		return err;
	if (collective)
		await_room(gpu->stage);
	*found = find_block(gpu->stage, size);
	if (!*found)
		err = make_block(gpu->stage, size, found);
	if (err)
		return err;
	(*found)->collective = collective;
	(*found)->number = gpu->number;
	atomic_store(&(*found)->busy, true);
	return 0;
}

void rd_stage_destroy(struct rd_stage *stage)
{
	if (!stage)
		return;
	while (stage->blocks) {
		struct rd_stage_block *block = stage->blocks;

		stage->blocks = block->next;
		free_block(stage, block);
	}
	free(stage);
}
