/*
 * Short calls: the steps of a call of one short piece, with the links and addresses that they use.
 * A call that is repeated with the same buffers finds all of that in two or three lines of the
 * cache. Where a message has not come, the executor goes on.
 */
#ifndef RD_SHORT_H
#define RD_SHORT_H

#include "exec/exec.h"

#define RD_SHORT_STEPS 8

/* NULL: `into` of a send, `from` of a receive that combines nothing, `link` of a copy. */
struct rd_short_step {
	struct rd_link *link;
	const char *from;
	char *into;
	uint32_t chunk; /* in the message's tag */
	int index; /* in the plan */
};

struct rd_short {
	struct rd_signature signature;
	size_t size; /* bytes of each message */
	rd_reduce_function reduce;
	uint16_t elements;
	uint16_t looks; /* for a message or room, beyond the first */
	int count; /* of steps; 0: the call is not short; -1: not known yet */
	struct rd_short_step steps[RD_SHORT_STEPS];
};

/* Looks up what the steps of the exec's call use. All its links are open. looks: at a link that has
   no message or no room, before the executor goes on; none where a link is not in shared memory. */
void rd_short_init(struct rd_short *call, const struct rd_exec *exec, int looks);

/* Runs the call once more, with this number. Returns -1 if it is done, else the index of the plan's
   step at which the executor goes on (rd_exec_skip()). */
int rd_short_run(struct rd_short *call, uint32_t number);

#endif
