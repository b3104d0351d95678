/*
 * Blocks of values that the executor's steps combine and copy. A step works on one block at a
 * time, which is then still in the first-level cache when it is copied on.
 */
#ifndef RD_BLOCK_H
#define RD_BLOCK_H

#include "exec/copy.h"
#include "exec/exec.h"

/* Bytes. */
#define RD_EXEC_BLOCK (8 << 10)

/* into = a op b; a's ranks come before b's where that matters. */
static inline void rd_exec_reduce(
	const struct rd_exec *exec, void *into, const void *a, const void *b, size_t count)
{
	if (exec->reduce)
		exec->reduce(into, a, b, count);
	else if (count > 0)
		rd_call_combine(&exec->call, into, a, b, count);
}

/* The two are the same, or share no byte. */
static inline void rd_exec_copy(void *into, const void *from, size_t size)
{
	if (into != from)
		rd_copy(into, from, size);
}

/* Whether a message of `size` bytes is written past this core's caches. The peer's core then
   fetches it from memory, and a later message there need not take its lines from that core. */
static inline bool rd_exec_goes_past(
	const struct rd_exec *exec, const struct rd_link *link, size_t size)
{
	return size >= exec->past_least && link->shares_room;
}

/* Copies a message into a link's room. */
static inline void rd_exec_copy_out(const struct rd_exec *exec, const struct rd_link *link,
	void *room, const void *from, size_t size)
{
	/* The first comparison is one that a copy makes in any case. */
	if (size >= RD_COPY_WIDE_MIN && rd_exec_goes_past(exec, link, size)) {
		rd_copy_past(room, from, size);
		rd_copy_past_end();
	} else {
		rd_exec_copy(room, from, size);
	}
}

#endif
