#include "gpu/staged.h"

#include <stdlib.h>
#include <string.h>

#include "base/arith.h"
#include "base/error.h"
#include "base/futex.h"
#include "gpu/queue.h"
#include "gpu/watch.h"

/* Bytes of a part: all blocks of a collective; less for transfers, which run side by side. */
#define PART_SIZE (1 << 20)
#define TRANSFER_PART_SIZE (256 << 10)
_Static_assert(RD_STAGE_SLOTS *PART_SIZE < RD_STAGE_BLOCK_SIZE, "a usual block is for them");
/* Parts of a call, at most: a stream's queue has room for some thousand operations. */
#define PARTS_MAX 64
/* Parts begin at multiples of this. */
#define ALIGNMENT 64
#define PAGE 4096
/* Ends a wait for the host: beyond any number of parts. */
#define BEYOND (1u << 30)

/* ---- Cutting ------------------------------------------------------------------------------- */

/* Blocks for which a part has room, on every rank. Input and output share it, as in a call in
   place. An all-to-all has room for both: in place it would need memory elsewhere. */
static size_t room_blocks(const struct rd_problem *problem)
{
	return problem->collective == RD_ALL_TO_ALL ? 2 * (size_t)problem->size
						    : (size_t)rd_blocks(problem);
}

/* The most elements of a block in a part: the same on all ranks. */
static size_t most_in_part(const struct rd_call *call)
{
	size_t element = rondo_type_size(call->type), unit = 1;
	size_t size = (rd_is_transfer(call) ? TRANSFER_PART_SIZE : PART_SIZE) /
		      room_blocks(&call->problem);
	size_t least = (call->count + PARTS_MAX - 1) / PARTS_MAX * element;
	size_t count =
		rd_max(size / ALIGNMENT * ALIGNMENT, rd_round_up(least, ALIGNMENT)) / element;

	/* The program's own elements stay whole. */
	if (call->user_op && call->user_op->element_size > 0)
		unit = call->user_op->element_size;
	count -= count % unit;
	return count > 0 ? count : unit;
}

/* Blocks of different lengths are one part: not every rank has the longest length. */
static void cut(struct rd_stage_feed *feed)
{
	const struct rd_call *call = &feed->call;

	feed->element = rondo_type_size(call->type);
	feed->part_count = call->count;
	feed->parts = feed->slot_count = 1;
	if (call->vcounts) {
		feed->slot_size = rd_round_up(rd_call_in_size(call), PAGE) +
				  rd_round_up(rd_call_out_size(call), PAGE);
		return;
	}
	feed->part_count = rd_min(most_in_part(call), call->count);
	if (call->count > 0)
		feed->parts = (call->count + feed->part_count - 1) / feed->part_count;
	feed->slot_size =
		rd_round_up(room_blocks(&call->problem) * feed->part_count * feed->element, PAGE);
	/* All of a transfer has room: it must not wait in the stream for another one. */
	feed->slot_count =
		rd_is_transfer(call) ? feed->parts : rd_min(feed->parts, (size_t)RD_STAGE_SLOTS);
}

static char *slot_of(const struct rd_stage_feed *feed, size_t part)
{
	return feed->slots + part % feed->slot_count * feed->slot_size;
}

static size_t first_of(const struct rd_stage_feed *feed, size_t part)
{
	return part * feed->part_count;
}

static size_t count_of(const struct rd_stage_feed *feed, size_t part)
{
	return rd_min(feed->part_count, feed->call.count - first_of(feed, part));
}

/* Where a part's input and output begin in its slot, which has its blocks without gaps. */
static char *in_of(const struct rd_stage_feed *feed, size_t part)
{
	const struct rd_problem *problem = &feed->call.problem;
	bool within = rd_in_blocks(problem) < rd_out_blocks(problem);
	size_t block = count_of(feed, part) * feed->element;

	if (feed->call.vcounts)
		return slot_of(feed, part);
	return slot_of(feed, part) + (within ? (size_t)problem->rank * block : 0);
}

static char *out_of(const struct rd_stage_feed *feed, size_t part)
{
	const struct rd_problem *problem = &feed->call.problem;
	int ins = rd_in_blocks(problem), outs = rd_out_blocks(problem);
	size_t block = count_of(feed, part) * feed->element;

	if (feed->call.vcounts)
		return slot_of(feed, part) + rd_round_up(rd_call_in_size(&feed->call), PAGE);
	if (problem->collective == RD_ALL_TO_ALL)
		return slot_of(feed, part) + (size_t)ins * block;
	return slot_of(feed, part) + (outs < ins ? (size_t)problem->rank * block : 0);
}

/* ---- Copying ------------------------------------------------------------------------------- */

/* The program's buffer may be host memory that the device addresses. */
static int copy(const struct rd_stage_feed *feed, void *stream, char *to, const char *from,
	size_t size, bool on_device)
{
	struct rd_gpu *gpu = feed->staged->gpu;

	if (size == 0)
		return 0;
	return on_device ? gpu->ops->copy(gpu->device, stream, to, from, size)
			 : rd_queue_copy(gpu, stream, to, from, size);
}

/* The call must not write between blocks. */
static int copy_extents(const struct rd_stage_feed *feed, void *stream,
	const struct rd_extent *extents, int blocks, char *to, const char *from, bool on_device)
{
	int err = 0;

	for (int i = 0; i < blocks && !err; i++)
		err = copy(feed, stream, to + extents[i].offset, from + extents[i].offset,
			extents[i].size, on_device);
	return err;
}

/* Copies `blocks` blocks of a part, which lie further apart on the device than in the slot. */
static int copy_blocks(const struct rd_stage_feed *feed, void *stream, size_t part, int blocks,
	char *device, char *slot, bool in)
{
	size_t size = count_of(feed, part) * feed->element;
	size_t stride = feed->call.count * feed->element;
	int err = 0;

	if (size == stride) {
		size *= (size_t)blocks;
		blocks = 1;
	}
	device += first_of(feed, part) * feed->element;
	for (int i = 0; i < blocks && !err; i++) {
		char *there = device + (size_t)i * stride, *here = slot + (size_t)i * size;

		err = in ? copy(feed, stream, here, there, size, feed->in_on_device)
			 : copy(feed, stream, there, here, size, feed->out_on_device);
	}
	return err;
}

int rd_staged_copy_in(const struct rd_stage_feed *feed, void *stream, size_t part)
{
	const struct rd_call *call = &feed->call;
	int blocks = rd_in_blocks(&call->problem);
	char *device = (char *)call->in, *slot = in_of(feed, part);

	if (call->vcounts)
		return copy_extents(
			feed, stream, call->vcounts->in, blocks, slot, device, feed->in_on_device);
	return copy_blocks(feed, stream, part, blocks, device, slot, true);
}

int rd_staged_copy_out(const struct rd_stage_feed *feed, void *stream, size_t part)
{
	const struct rd_call *call = &feed->call;
	int blocks = rd_out_blocks(&call->problem);
	char *device = call->out, *slot = out_of(feed, part);

	if (call->vcounts)
		return copy_extents(feed, stream, call->vcounts->out, blocks, device, slot,
			feed->out_on_device);
	return copy_blocks(feed, stream, part, blocks, device, slot, false);
}

/* ---- Feeding ------------------------------------------------------------------------------- */

static int next(struct rd_feed *base, struct rd_call *call)
{
	struct rd_stage_feed *feed = (struct rd_stage_feed *)base;
	size_t part = feed->done;

	if (part == feed->parts)
		return RD_DONE;
	if (!rd_flag_reached(
		    &rd_staged_flags(feed->staged)->arrived, feed->arrival + (uint32_t)part))
		return RD_IDLE;
	feed->waits = 0;
	call->count = count_of(feed, part);
	call->full_count = feed->call.count;
	if (rd_in_blocks(&call->problem) > 0)
		call->in = in_of(feed, part);
	if (rd_out_blocks(&call->problem) > 0)
		call->out = out_of(feed, part);
	return RD_MOVED;
}

static int take(struct rd_feed *base)
{
	struct rd_stage_feed *feed = (struct rd_stage_feed *)base;

	feed->done++;
	rd_flag_write(&rd_staged_flags(feed->staged)->run[feed->index], (uint32_t)feed->done);
	return feed->done == feed->parts ? RD_DONE : RD_MOVED;
}

static void pause_a_moment(struct rd_feed *base)
{
	struct rd_stage_feed *feed = (struct rd_stage_feed *)base;

	rd_gpu_watch_pause(&rd_staged_flags(feed->staged)->arrived,
		feed->arrival + (uint32_t)feed->done, feed->waits++);
}

static const struct rd_feed feeding = { .next = next, .take = take, .pause = pause_a_moment };

/* ---- Making -------------------------------------------------------------------------------- */

/* Gives each task a feed and its part of the memory. */
int rd_staged_make(struct rd_gpu *gpu, struct rd_task *tasks, int count, struct rd_staged **made)
{
	struct rd_staged *staged =
		calloc(1, sizeof(*staged) + (size_t)count * sizeof(struct rd_stage_feed));
	size_t flags_size = sizeof(struct rd_stage_flags) + (size_t)count * sizeof(uint32_t);
	size_t at = rd_round_up(flags_size, PAGE), size = at;
	struct rd_allocation allocation;
	uint32_t arrivals = 0;
	int err;

	if (!staged)
		return rd_fail(RONDO_MEMORY, "no memory to stage %d calls", count);
	staged->holders = 2;
	staged->gpu = gpu;
	staged->count = count;
	for (int i = 0; i < count; i++) {
		struct rd_stage_feed *feed = &staged->feeds[i];

		*feed = (struct rd_stage_feed){
			.base = feeding, .staged = staged, .call = tasks[i].call, .index = i
		};
		tasks[i].feed = &feed->base;
		feed->in_on_device = gpu->ops->find(feed->call.in, &allocation);
		feed->out_on_device = gpu->ops->find(feed->call.out, &allocation);
		cut(feed);
		/* The stream copies what a rank sends to itself. */
		if (rd_is_own_transfer(&feed->call))
			feed->parts = feed->slot_count = 0;
		if (rd_staged_has_input(feed)) {
			feed->arrival = arrivals + 1;
			arrivals += (uint32_t)feed->parts;
		} else {
			/* `arrived` counts no part of it: the host may begin. */
			feed->arrival = 0u - (uint32_t)feed->parts;
		}
		size += feed->slot_count * feed->slot_size;
	}
	err = rd_stage_take(gpu, size, !rd_is_transfer(&tasks->call), &staged->block);
	if (err) {
		free(staged);
		return err;
	}
	memset(staged->block->memory, 0, flags_size);
	for (int i = 0; i < count; i++) {
		staged->feeds[i].slots = staged->block->memory + at;
		at += staged->feeds[i].slot_count * staged->feeds[i].slot_size;
	}
	*made = staged;
	return 0;
}

void rd_staged_put(struct rd_staged *staged)
{
	if (atomic_fetch_sub(&staged->holders, 1) > 1)
		return;
	for (int i = 0; i < staged->count; i++)
		rd_call_finish(&staged->feeds[i].call);
	free(staged);
}

void rd_staged_end(struct rd_staged *staged, int err)
{
	for (int i = 0; i < staged->count && err; i++)
		rd_flag_write(&rd_staged_flags(staged)->run[i], BEYOND);
	rd_flag_write(&staged->block->let_go, 1);
	rd_staged_put(staged);
}
