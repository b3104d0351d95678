#include "gpu/staging.h"

#include <stdlib.h>
#include <string.h>

#include "base/arith.h"
#include "base/error.h"
#include "base/futex.h"
#include "comm/registration.h"
#include "gpu/watch.h"

/* Parts of a call at a time: one is copied in, one is run, one is copied out. */
#define SLOTS 3
/* Bytes of a part: all blocks of a collective; less for transfers, which run side by side. */
#define PART_SIZE (1 << 20)
#define TRANSFER_PART_SIZE (256 << 10)
/* Parts begin at multiples of this. */
#define ALIGNMENT 64
#define PAGE 4096

/* The feed of one call (task.h): the host runs it part by part. */
struct feed {
	struct rd_feed base;
	struct rd_stage *stage;
	struct rd_call call; /* on device memory */
	size_t element;
	size_t part_count; /* elements of a block in a part; the last has fewer */
	size_t parts, copied, done; /* copied: in, to slots */
	size_t slot_size;
	char *slots;
	uint32_t arrived[SLOTS]; /* the stage's flag, once the slot's part is there */
	int waits;
};

struct rd_stage {
	struct rd_gpu *gpu;
	void *stream; /* copies parts in, while the gpu's stream copies them out */
	void *in_stream; /* that, or the gpu's stream where each call is one part; NULL: nothing
			    has begun */
	uint32_t *arrived, queued; /* parts that are copied in; whose copy is queued */
	char *memory; /* begins with a page that holds the flag `arrived`; slots follow */
	size_t size;
	struct feed *feeds;
	int feed_count, used; /* used: by the calls that run */
};

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
	bool transfer = call->problem.collective == RD_TRANSFER;
	size_t element = rondo_type_size(call->type), unit = 1;
	size_t size = (transfer ? TRANSFER_PART_SIZE : PART_SIZE) / room_blocks(&call->problem);
	size_t count = size / ALIGNMENT * ALIGNMENT / element;

	/* The program's own elements stay whole. */
	if (call->user_op && call->user_op->element_size > 0)
		unit = call->user_op->element_size;
	count -= count % unit;
	return count > 0 ? count : unit;
}

/* Blocks of different lengths are one part: not every rank has the longest length. */
static void cut(struct feed *feed)
{
	const struct rd_call *call = &feed->call;

	feed->element = rondo_type_size(call->type);
	feed->part_count = call->count;
	feed->parts = 1;
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
}

static size_t slot_count(const struct feed *feed)
{
	return rd_min(feed->parts, SLOTS);
}

static char *slot_of(const struct feed *feed, size_t part)
{
	return feed->slots + part % SLOTS * feed->slot_size;
}

static size_t first_of(const struct feed *feed, size_t part)
{
	return part * feed->part_count;
}

static size_t count_of(const struct feed *feed, size_t part)
{
	return rd_min(feed->part_count, feed->call.count - first_of(feed, part));
}

/* Where a part's input and output begin in its slot, which has its blocks without gaps. */
static char *in_of(const struct feed *feed, size_t part)
{
	const struct rd_problem *problem = &feed->call.problem;
	bool within = rd_in_blocks(problem) < rd_out_blocks(problem);
	size_t block = count_of(feed, part) * feed->element;

	if (feed->call.vcounts)
		return slot_of(feed, part);
	return slot_of(feed, part) + (within ? (size_t)problem->rank * block : 0);
}

static char *out_of(const struct feed *feed, size_t part)
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

static int copy(const struct rd_stage *stage, char *device, char *host, size_t size, bool to_host)
{
	struct rd_gpu *gpu = stage->gpu;

	if (size == 0)
		return 0;
	return to_host ? gpu->ops->copy(gpu->device, stage->in_stream, host, device, size)
		       : gpu->ops->copy(gpu->device, gpu->stream, device, host, size);
}

/* The call must not write between blocks. */
static int copy_extents(const struct feed *feed, const struct rd_extent *extents, int blocks,
	char *device, char *host, bool to_host)
{
	int err = 0;

	for (int i = 0; i < blocks && !err; i++)
		err = copy(feed->stage, device + extents[i].offset, host + extents[i].offset,
			extents[i].size, to_host);
	return err;
}

/* Copies `blocks` blocks of a part, which lie further apart on the device than here. */
static int copy_blocks(
	const struct feed *feed, size_t part, int blocks, char *device, char *host, bool to_host)
{
	size_t count = count_of(feed, part), size = count * feed->element;
	size_t stride = feed->call.count * feed->element;
	int err = 0;

	if (size == stride) {
		size *= (size_t)blocks;
		blocks = 1;
	}
	device += first_of(feed, part) * feed->element;
	for (int i = 0; i < blocks && !err; i++)
		err = copy(feed->stage, device + (size_t)i * stride, host + (size_t)i * size, size,
			to_host);
	return err;
}

static int copy_in(const struct feed *feed, size_t part)
{
	const struct rd_call *call = &feed->call;
	int blocks = rd_in_blocks(&call->problem);
	char *device = (char *)call->in, *host = in_of(feed, part);

	if (call->vcounts)
		return copy_extents(feed, call->vcounts->in, blocks, device, host, true);
	return copy_blocks(feed, part, blocks, device, host, true);
}

static int copy_out(const struct feed *feed, size_t part)
{
	const struct rd_call *call = &feed->call;
	int blocks = rd_out_blocks(&call->problem);
	char *device = call->out, *host = out_of(feed, part);

	if (call->vcounts)
		return copy_extents(feed, call->vcounts->out, blocks, device, host, false);
	return copy_blocks(feed, part, blocks, device, host, false);
}

/* Queues the copy of the next part into its slot, behind the copy out of the slot's last part. */
static int copy_part_in(struct feed *feed)
{
	struct rd_stage *stage = feed->stage;
	struct rd_gpu *gpu = stage->gpu;
	size_t part = feed->copied++;
	int err = 0;

	if (stage->in_stream != gpu->stream)
		err = gpu->ops->stream_follow(gpu->device, stage->in_stream, gpu->stream);
	if (!err)
		err = copy_in(feed, part);
	feed->arrived[part % SLOTS] = ++stage->queued;
	return err ? err
		   : gpu->ops->write_flag(
			     gpu->device, stage->in_stream, stage->arrived, stage->queued);
}

/* ---- Feeding ------------------------------------------------------------------------------- */

static int next(struct rd_feed *base, struct rd_call *call)
{
	struct feed *feed = (struct feed *)base;
	size_t part = feed->done;

	if (!rd_flag_reached(feed->stage->arrived, feed->arrived[part % SLOTS]))
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
	struct feed *feed = (struct feed *)base;
	size_t part = feed->done++;
	int err = copy_out(feed, part);

	if (!err && feed->copied < feed->parts)
		err = copy_part_in(feed);
	if (err)
		return err;
	return feed->done == feed->parts ? RD_DONE : RD_MOVED;
}

static void pause_a_moment(struct rd_feed *base)
{
	struct feed *feed = (struct feed *)base;

	rd_gpu_watch_pause(feed->stage->arrived, feed->arrived[feed->done % SLOTS], feed->waits++);
}

static const struct rd_feed feeding = { .next = next, .take = take, .pause = pause_a_moment };

/* ---- Memory -------------------------------------------------------------------------------- */

static void free_memory(struct rd_stage *stage)
{
	const struct rd_device_ops *ops = stage->gpu->ops;

	if (!stage->memory)
		return;
	ops->stream_synchronize(stage->gpu->device, stage->stream);
	ops->stream_synchronize(stage->gpu->device, stage->gpu->stream);
	ops->unshare(stage->memory);
	rd_registered_free(stage->memory);
	stage->memory = NULL;
}

/* Has memory for `size` bytes, shared with devices: replaces a smaller one. It is a region, which
   local peers can address directly, and NICs that are able to. */
static int grow(struct rd_stage *stage, size_t size)
{
	void *memory;
	int err;

	if (stage->memory && size <= stage->size)
		return 0;
	free_memory(stage);
	err = rd_registered_alloc(&memory, size);
	if (err)
		return err;
	err = stage->gpu->ops->share(memory, size);
	if (err) {
		rd_registered_free(memory);
		return err;
	}
	stage->memory = memory;
	stage->size = size;
	stage->arrived = memory;
	stage->queued = 0;
	return 0;
}

static int create(struct rd_stage **stage, struct rd_gpu *gpu)
{
	struct rd_stage *made = calloc(1, sizeof(*made));

	if (!made)
		return rd_fail(RONDO_MEMORY, "no memory to stage calls");
	made->gpu = gpu;
	*stage = made;
	return 0;
}

void rd_stage_destroy(struct rd_stage *stage)
{
	if (!stage)
		return;
	free_memory(stage);
	if (stage->stream)
		stage->gpu->ops->stream_destroy(stage->gpu->device, stage->stream);
	free(stage->feeds);
	free(stage);
}

/* ---- Running ------------------------------------------------------------------------------- */

static int give_feeds(struct rd_stage *stage, struct rd_task *tasks, int count)
{
	if (count > stage->feed_count) {
		struct feed *grown = realloc(stage->feeds, (size_t)count * sizeof(*grown));

		if (!grown)
			return rd_fail(RONDO_MEMORY, "no memory to stage %d calls", count);
		stage->feeds = grown;
		stage->feed_count = count;
	}
	stage->used = count;
	stage->in_stream = NULL;
	for (int i = 0; i < count; i++) {
		struct feed *feed = &stage->feeds[i];

		*feed = (struct feed){ .base = feeding, .stage = stage, .call = tasks[i].call };
		tasks[i].feed = &feed->base;
		cut(feed);
	}
	return 0;
}

/* Chooses in_stream; creates the stage's own stream when first needed. */
static int choose_stream(struct rd_stage *stage)
{
	struct rd_gpu *gpu = stage->gpu;
	bool parted = false;
	int err = 0;

	for (int i = 0; i < stage->used; i++)
		parted |= stage->feeds[i].parts > 1;
	if (!stage->stream)
		err = gpu->ops->stream_create(gpu->device, &stage->stream);
	stage->in_stream = parted ? stage->stream : gpu->stream;
	return err;
}

/* To all feeds, also those that may never begin. */
static int assign_slots(struct rd_stage *stage)
{
	size_t size = PAGE, at = PAGE;
	int err;

	for (int i = 0; i < stage->used; i++)
		size += slot_count(&stage->feeds[i]) * stage->feeds[i].slot_size;
	err = grow(stage, size > PAGE + SLOTS * PART_SIZE ? size : PAGE + SLOTS * PART_SIZE);
	for (int i = 0; i < stage->used && !err; i++) {
		stage->feeds[i].slots = stage->memory + at;
		at += slot_count(&stage->feeds[i]) * stage->feeds[i].slot_size;
	}
	return err;
}

int rd_stage_prepare(struct rd_stage **stage, struct rd_gpu *gpu, struct rd_task *tasks, int count)
{
	int err = *stage ? 0 : create(stage, gpu);

	return err ? err : give_feeds(*stage, tasks, count);
}

int rd_stage_begin(struct rd_stage *stage, int index)
{
	struct feed *feed = &stage->feeds[index];
	int err = 0;

	if (!stage->in_stream) {
		err = choose_stream(stage);
		if (!err)
			err = assign_slots(stage);
	}
	while (!err && feed->copied < SLOTS && feed->copied < feed->parts)
		err = copy_part_in(feed);
	return err;
}

void rd_stage_end(struct rd_stage *stage, int err)
{
	struct rd_gpu *gpu = stage->gpu;

	/* Then parts are still on their way from memory that the program may free after the call.
	 */
	if (err && stage->in_stream)
		gpu->ops->stream_follow(gpu->device, gpu->stream, stage->in_stream);
}

int rd_stage_run(struct rd_stage **stage, struct rd_gpu *gpu, struct rd_task *task)
{
	int err = rd_stage_prepare(stage, gpu, task, 1);

	if (!err)
		err = rd_stage_begin(*stage, 0);
	if (err)
		rd_comm_fail(gpu->comm, err, gpu->comm->rank);
	/* Also after a failure: the comm must see its turns end. */
	err = rd_run(task, 1);
	if (*stage)
		rd_stage_end(*stage, err);
	return err;
}
