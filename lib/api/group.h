/* The open group of this thread: calls that were made and wait for rondo_group_end(). */
#ifndef RD_GROUP_H
#define RD_GROUP_H

#include "base/error.h"
#include "base/hot_call.h"
#include "comm/run.h"

struct rd_group {
	int depth;
	unsigned forks; /* rd_process.forks where it was started */
	int count, capacity;
	struct rd_task *tasks;
	struct rondo_stream *stream;
	int error; /* the first refusal, and its reason */
	char reason[RD_REASON_SIZE];
};

extern _Thread_local struct rd_group rd_group;

/* A group that was open at a fork is the parent's: the child has none. */
static inline bool rd_group_open(void)
{
	return rd_group.depth > 0 && !rd_is_inherited(rd_group.forks);
}

/* Returns false where no thread has one: most calls need not look for that of their thread. */
static inline bool rd_group_some_open(void)
{
	return atomic_load_explicit(&rd_process.groups, memory_order_relaxed) > 0;
}

/* Adds a call to the open group. Takes over its vcounts and user operation. */
int rd_group_add(struct rd_task *task, struct rondo_stream *stream);

/* Records that a call of the open group was refused, which refuses the whole group. Returns
   error. */
int rd_group_refuse(int error);

/* A stream is about to be destroyed: where the open group has calls on it, the group is refused. */
void rd_group_lose_stream(const struct rondo_stream *stream);

/* Ends the innermost open group. *closed: the outermost one, whose calls are to be run now; NULL:
   an outer one is still open. */
int rd_group_close(struct rd_group **closed);
/* Frees the closed group, whose calls have been run or refused. */
void rd_group_clear(void);

#endif
