/*
 * The links of a comm belong to the thread that runs its calls, or for a moment to the control
 * thread, which opens links that other ranks need while this rank makes no call. A call pays for it
 * with one atomic exchange.
 */
#ifndef RD_HOLD_H
#define RD_HOLD_H

#include "comm/comm.h"

/* Takes the links if nobody has them. Where another thread has, 1 replaces 1. */
static inline bool rd_hold_now(struct rondo_comm *comm)
{
	return atomic_exchange_explicit(&comm->in_use, 1, memory_order_acquire) == 0;
}

bool rd_hold_wait(struct rondo_comm *comm);
/* Links that the control thread has armed, and that a call has now, wake nobody. */
void rd_hold_disarm(struct rondo_comm *comm);

/* Takes the links for a call. False: the comm has failed, and another thread has them. */
static inline bool rd_hold(struct rondo_comm *comm)
{
	if (__builtin_expect(!rd_hold_now(comm), false) && !rd_hold_wait(comm))
		return false;
	if (__builtin_expect(comm->connecting.armed, false))
		rd_hold_disarm(comm);
	return true;
}

/* Ends rd_hold(). Links that are still being opened are the control thread's then. */
static inline void rd_unhold(struct rondo_comm *comm)
{
	bool opens = comm->connecting.openings != NULL;

	atomic_store_explicit(&comm->in_use, 0, memory_order_release);
	if (__builtin_expect(opens, false))
		rd_control_serve_links(comm->control);
}

/* Takes the links for the control thread, which does not wait for calls. Ends by rd_hold_pass(). */
bool rd_hold_try(struct rondo_comm *comm);
void rd_hold_pass(struct rondo_comm *comm);

#endif
