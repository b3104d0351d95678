#include "comm/hold.h"

#include <sched.h>

void rd_hold_disarm(struct rondo_comm *comm)
{
	if (comm->connecting.armed)
		rd_comm_disarm(comm);
	comm->connecting.armed = false;
}

/* The control thread holds the lock while it has the links. */
bool rd_hold_wait(struct rondo_comm *comm)
{
	for (;;) {
		pthread_mutex_lock(&comm->hold_lock);
		pthread_mutex_unlock(&comm->hold_lock);
		if (rd_hold_now(comm))
			return true;
		/* A call whose turn has come waits for the control thread alone. */
		if (atomic_load(&comm->failed))
			return false;
		sched_yield();
	}
}

bool rd_hold_try(struct rondo_comm *comm)
{
	pthread_mutex_lock(&comm->hold_lock);
	if (rd_hold_now(comm))
		return true;
	pthread_mutex_unlock(&comm->hold_lock);
	return false;
}

void rd_hold_pass(struct rondo_comm *comm)
{
	atomic_store_explicit(&comm->in_use, 0, memory_order_release);
	pthread_mutex_unlock(&comm->hold_lock);
}
