/* Makes steps for devices (steps.h) of plans of messages. */
#ifndef RD_COMPILE_MESSAGES_H
#define RD_COMPILE_MESSAGES_H

#include "device/steps.h"
#include "exec/call.h"
#include "plan/plan.h"

/* Sizes of a rank's fifo, by the number of ranks and channels: the same on every rank. */
size_t rd_fifo_slot_size(int size, int channels);
size_t rd_fifo_size(int size, int channels);

/* Whether devices have all steps of this plan: those of messages that are taken one by one. */
bool rd_compile_can(const struct rd_plan *plan);

/* Writes the plan's moves, at most step_count. Returns their number. */
int rd_compile_moves(const struct rd_plan *plan, struct rd_move *moves);

/*
 * Cuts a call of this plan into pieces: fills in all of steps but fifo, moves, memory, abort flag
 * and timeout. fifo_channels and slot_size are the fifo's; fewer channels are used where there is
 * little to do.
 */
void rd_compile_cut(struct rd_steps *steps, const struct rd_plan *plan, const struct rd_call *call,
	int fifo_channels, size_t slot_size);

/* Bytes of scratch memory that any call of a plan may need. */
size_t rd_compile_scratch_size(const struct rd_plan *plan, int channels, size_t slot_size);

/* A hash of everything that ranks must have alike in a call. */
uint32_t rd_call_hash(const struct rd_call *call);

#endif
