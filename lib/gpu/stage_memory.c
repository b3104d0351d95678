#include "gpu/stage_memory.h"

#include <stdlib.h>

#include "base/arith.h"
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
		err = stage->gpu->ops->share(stage->gpu->device, memory, size);
		if (err)
			rd_registered_free(memory);
	}
	if (err) {
		free(block);
		return err;
	}
	*block = (struct rd_stage_block){ .next = stage->blocks,
		.memory = memory,
		.size = size,
		.number = stage->gpu->number - 1,
		.let_go = 1 };
	stage->blocks = block;
	*made = block;
	return 0;
}

/* In a call: it waits for this comm's earlier calls first, which need nothing of this one on any
   rank. Then no stream of the device has work of this comm for which the driver could wait. */
static int make_late(struct rd_stage *stage, size_t size, struct rd_stage_block **made)
{
	rd_gpu_await(stage->gpu, stage->gpu->number - 1);
	return make_block(stage, size, made);
}

static void free_block(struct rd_stage *stage, struct rd_stage_block *block)
{
	stage->gpu->ops->unshare(stage->gpu->device, block->memory);
	rd_registered_free(block->memory);
	free(block);
}

/* A call that is further back than the run-ahead is done. Its number says nothing: numbers come
   again. */
static bool is_free(const struct rd_gpu *gpu, const struct rd_stage_block *block)
{
	return rd_flag_reached(&block->let_go, 1) &&
	       (gpu->number - block->number >= RD_RUN_AHEAD ||
		       rd_flag_reached(&gpu->stream_flags->finished, block->number));
}

/* The shortest that is long enough; NULL: there is none. */
static struct rd_stage_block *find_block(const struct rd_stage *stage, size_t size)
{
	struct rd_stage_block *best = NULL;

	for (struct rd_stage_block *block = stage->blocks; block; block = block->next)
		if (block->size >= size && is_free(stage->gpu, block) &&
			(!best || block->size < best->size))
			best = block;
	return best;
}

/* Other than by the call that is being queued. */
static bool is_idle(const struct rd_stage *stage)
{
	for (const struct rd_stage_block *block = stage->blocks; block; block = block->next)
		if (!is_free(stage->gpu, block))
			return false;
	return rd_flag_reached(&stage->gpu->stream_flags->finished, stage->gpu->number - 1);
}

/* A longer one is to take the place of those that were made for earlier calls. */
static void free_unusual(struct rd_stage *stage)
{
	for (struct rd_stage_block **at = &stage->blocks; *at;) {
		struct rd_stage_block *block = *at;

		if (block->size <= RD_STAGE_BLOCK_SIZE) {
			at = &block->next;
			continue;
		}
		*at = block->next;
		free_block(stage, block);
	}
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
	if (under_way < COLLECTIVES_MAX)
		return;
	rd_gpu_await(stage->gpu, first->number);
	/* The progress thread runs these calls one after the other. */
	while (!rd_flag_reached(&first->let_go, 1))
		rd_flag_sleep(&first->let_go, 0, RD_WATCH_SLEEP_NS);
}

int rd_stage_create(struct rd_gpu *gpu)
{
	struct rd_stage *stage = calloc(1, sizeof(*stage));
	struct rd_stage_block *block;
	int err = 0;

	if (!stage)
		return rd_fail(RONDO_MEMORY, "no memory to stage calls");
	stage->gpu = gpu;
	gpu->stage = stage;
	for (int i = 0; i < COLLECTIVES_MAX && !err; i++)
		err = make_block(stage, RD_STAGE_BLOCK_SIZE, &block);
	return err;
}

int rd_stage_take(struct rd_gpu *gpu, size_t size, bool collective, struct rd_stage_block **found)
{
	int err = gpu->stage ? 0 : rd_stage_create(gpu);

	if (err)
		return err;
	if (collective)
		await_room(gpu->stage);
	*found = find_block(gpu->stage, size);
	if (!*found && is_idle(gpu->stage))
		free_unusual(gpu->stage);
	if (!*found)
		err = make_late(gpu->stage, rd_max(size, RD_STAGE_BLOCK_SIZE), found);
	if (err)
		return err;
	(*found)->collective = collective;
	(*found)->number = gpu->number;
	rd_flag_write(&(*found)->let_go, 0);
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
