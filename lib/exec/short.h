/*
 * Short calls: the steps of a call of one short piece, with the links and addresses that they use.
 * A call that is repeated with the same buffers finds all of that in two or three lines of the
 * cache. Where a message has not come, the executor goes on.
 */
#ifndef RD_SHORT_H
#define RD_SHORT_H

#include "exec/exec.h"

/* Bytes of a block. */
#define RD_SHORT_MOST (16 << 10)
#define RD_SHORT_STEPS 8
#define RD_SHORT_FEW 2

/* NULL: `into` of a send, `from` of a receive that combines nothing, `link` of a copy. */
struct rd_short_step {
	struct rd_link *link;
	const char *from;
	char *into;
	uint32_t chunk; /* in the message's tag */
	int index; /* in the plan */
};

/* All but the steps is a line of the cache, and the steps of most calls of two ranks the next. */
struct rd_short {
	struct rd_signature signature; /* with the call's arguments, but for its buffers: */
	const void *in;
	void *out;
	rd_reduce_function reduce;
	uint16_t size; /* bytes of each message */
	uint16_t elements;
	int8_t count; /* of steps; 0: the call is not short; -1: not known yet */
	bool shares_room : 1; /* it has steps, and all links share: what they accepted is sent */
	bool looks : 1; /* for a message or room for a while, before the executor goes on */
	bool past : 1; /* messages are written past this core's caches (block.h) */
	/* Its user's: whether an equal call may start here, and its digest (comm/task.h). */
	bool repeats;
	uint64_t digest;
	union {
		struct rd_short_step few[RD_SHORT_FEW];
		const struct rd_short_step *many; /* where there are more */
	};
};

static inline const struct rd_short_step *rd_short_steps(const struct rd_short *call)
{
	return __builtin_expect(call->count > RD_SHORT_FEW, false) ? call->many : call->few;
}

/* Returns whether a call with these arguments equals the one that it was made of. */
static inline bool rd_short_equals(const struct rd_short *call, const void *in, const void *out,
	size_t count, rondo_type type, rondo_op op, int root)
{
	const struct rd_signature *last = &call->signature;

	return last->count == count && call->in == in && call->out == out &&
	       last->type == (unsigned)type && last->op == (unsigned)op &&
	       last->root == (unsigned)root;
}

/* Looks up what the steps of the exec's call use. All its links are open. looks: at a link that has
   no message or no room, for some microseconds, before the executor goes on; never where a link is
   not in shared memory. many: holds the steps if there are more than a few, as long as the call is
   used. */
void rd_short_init(struct rd_short *call, const struct rd_exec *exec, bool looks,
	struct rd_short_step many[RD_SHORT_STEPS]);

#endif
