/*
 * Steps that read and write peers' memory (exec->peer_buffers), where each rank's buffers are
 * mapped by all others. They move a slice at once and wait for nothing: the plan's signals order
 * them.
 */
#ifndef RD_DIRECT_ACCESS_H
#define RD_DIRECT_ACCESS_H

#include "exec/exec.h"

/* Reads a slice of the peer's input. */
void rd_exec_fetch(struct rd_exec *exec, size_t piece, const struct rd_step *step);
/* Reads a slice of the peer's input once, and writes it to the outputs of all ranks that the step
   reaches. */
void rd_exec_spread(struct rd_exec *exec, size_t piece, const struct rd_step *step);
/* Exchanges a slice with the peer, for both ranks. */
void rd_exec_swap(struct rd_exec *exec, size_t piece, const struct rd_step *step);
/* Combines a slice of all ranks' inputs, in rank order. The result goes to scratch, or to the
   output of step->to (-1: of all ranks). */
void rd_exec_combine(struct rd_exec *exec, int channel, size_t piece, const struct rd_step *step);

#endif
