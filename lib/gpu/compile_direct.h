/* Makes work for devices (work.h) of plans of direct access. */
#ifndef RD_COMPILE_DIRECT_H
#define RD_COMPILE_DIRECT_H

#include "device/small_work.h"
#include "device/work.h"
#include "exec/call.h"
#include "plan/plan.h"

/*
 * The steps of this plan for a call (NULL: a barrier, which has none); false where it holds what no
 * device does (messages, signals amid the work, too many ranks). The rest of the work is the
 * caller's to fill in.
 */
bool rd_compile_direct(
	struct rd_work *work, const struct rd_plan *plan, const struct rd_call *call);

/* The same as small work: of a call whose blocks have one length, and all of them no more than
   RD_LL_BUFFER_SIZE - 8 bytes. */
void rd_compile_small(struct rd_small_work *work, const struct rd_call *call);

/* Bytes that one rank has for another in a call that moves blocks; one of the two is this rank. */
size_t rd_compile_pair_size(const struct rd_call *call, int from, int to);

#endif
