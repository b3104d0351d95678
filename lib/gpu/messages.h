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

#include "gpu/gpu.h"

struct rd_messages;

/*
 * Makes this rank's fifo, and tries every pair of ranks with real bytes: all ranks together, when
 * the gpu is made. gpu->messages stays NULL where there is a rank that reaches no other; that
 * is no error, and the same on all ranks.
 */
int rd_messages_create(struct rd_gpu *gpu);
void rd_messages_destroy(struct rd_messages *messages); /* NULL is fine */

/* Whether the two ranks of this comm exchange messages on devices. */
bool rd_messages_link(const struct rd_messages *messages, int a, int b);

/*
 * Has the plan of a collective on the device, by the algorithm that RONDO_ALGO names or else the
 * first whose links are all there. *found: false where there is none, on every rank alike: the call
 * is to be staged. captures: the stream only records, so nothing can be allocated:
 * RONDO_UNSUPPORTED for a plan that is not on the device yet. In the thread that makes the comm's
 * calls.
 */
int rd_messages_prepare(
	struct rd_messages *messages, const struct rd_problem *problem, bool captures, bool *found);
/* The steps of a call whose plan was prepared. */
void rd_messages_steps(
	struct rd_messages *messages, const struct rd_call *call, struct rd_steps *steps);

#endif
