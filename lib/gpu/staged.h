/*
 * Staged calls: the parts of a call on device memory that runs in host memory, where they lie
 * there, and the feed by which the host runs them (staging.h).
 */
#ifndef RD_STAGED_H
#define RD_STAGED_H

#include "gpu/stage_memory.h"

/* Parts of a collective at a time: one is copied in, one is run, one is copied out. */
#define RD_STAGE_SLOTS 3

/* The feed of one call (task.h): the host runs it part by part. */
struct rd_stage_feed {
	struct rd_feed base;
	struct rd_staged *staged;
	struct rd_call call; /* on the program's memory */
	bool in_on_device, out_on_device; /* else in host memory that the device addresses */
	size_t element;
	size_t part_count; /* elements of a block in a part; the last has fewer */
	size_t parts, done;
	size_t slot_size, slot_count;
	char *slots;
	uint32_t arrival; /* the flag `arrived`, once the first part is there */
	int index, waits;
};

/* One batch of tasks that is staged. The caller that queues it and the progress thread hold a
   reference each. It owns the calls. */
struct rd_staged {
	_Atomic int holders;
	struct rd_gpu *gpu;
	struct rd_stage_block *block;
	int count;
	struct rd_stage_feed feeds[];
};

/* At the beginning of a block of memory. */
struct rd_stage_flags {
	uint32_t arrived; /* by the device: parts that are copied in */
	uint32_t emptied; /* by the device: parts that are copied out */
	uint32_t run[]; /* by the host: parts of each task */
};

static inline struct rd_stage_flags *rd_staged_flags(const struct rd_staged *staged)
{
	return (struct rd_stage_flags *)staged->block->memory;
}

static inline bool rd_is_transfer(const struct rd_call *call)
{
	return call->problem.collective == RD_TRANSFER;
}

static inline bool rd_is_own_transfer(const struct rd_call *call)
{
	return rd_is_transfer(call) && call->problem.root == call->problem.target;
}

static inline bool rd_staged_has_input(const struct rd_stage_feed *feed)
{
	const struct rd_problem *problem = &feed->call.problem;

	return !rd_is_transfer(&feed->call) || problem->root == problem->rank;
}

static inline bool rd_staged_has_output(const struct rd_stage_feed *feed)
{
	const struct rd_problem *problem = &feed->call.problem;

	return !rd_is_transfer(&feed->call) || problem->target == problem->rank;
}

/* Gives each task a feed and its part of the memory, for the call gpu->number. */
int rd_staged_make(struct rd_gpu *gpu, struct rd_task *tasks, int count, struct rd_staged **made);
/* Drops a reference. The last one frees the calls. */
void rd_staged_put(struct rd_staged *staged);

/* Queue the copy of a part into its slot, and out of it. */
int rd_staged_copy_in(const struct rd_stage_feed *feed, void *stream, size_t part);
int rd_staged_copy_out(const struct rd_stage_feed *feed, void *stream, size_t part);

/* In the progress thread, when the tasks have been run, or failed: then the stream goes on. Drops a
   reference. */
void rd_staged_end(struct rd_staged *staged, int err);

#endif
