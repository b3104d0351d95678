/*
 * Calls by messages: one kernel (steps.h) runs the same ring, tree and mesh plans that run on host
 * memory. A plan runs where each pair of ranks that it has
 * exchange messages reaches each other's device memory; others need not. Peers' buffers are never
 * addressed, only their fifo, so a call is one launch on the user's stream, in one process or in
 * several.
 *
 * Each rank's fifo takes at most RD_FIFO_SIZE bytes of device memory, and a sixteenth of a MiB for
 * its flags.
 */
#ifndef RD_MESSAGES_H
#define RD_MESSAGES_H

#include "gpu/state.h"

struct rd_messages;

/*
 * Makes this rank's fifo, tries every pair of ranks with real bytes, and puts all plans on the
 * device: all ranks together, when the gpu is made. gpu->messages stays NULL where there is a rank
 * that reaches no other; that is no error, and the same on all ranks.
 */
int rd_messages_create(struct rd_gpu *gpu);
void rd_messages_destroy(struct rd_messages *messages); /* NULL is fine */

/* Whether the two ranks of this comm exchange messages on devices. */
bool rd_messages_link(const struct rd_messages *messages, int a, int b);

/* Whether this collective has a plan, by the algorithm that RONDO_ALGO names or else the first
   whose links are all there. Where it has none, on every rank alike, the call is staged. The first
   query logs the answer. In the thread that makes the comm's calls. */
bool rd_messages_can(struct rd_messages *messages, const struct rd_problem *problem);
/* The steps of a call that rd_messages_can() allows. */
void rd_messages_steps(
	struct rd_messages *messages, const struct rd_call *call, struct rd_steps *steps);

#endif
