/*
 * Calls that the library makes itself while a comm is created. All have number 0 and are not
 * counted: another rank may be in its user's first call already.
 */
#ifndef RD_OWN_CALLS_H
#define RD_OWN_CALLS_H

#include "comm/comm.h"

/* Moves `size` bytes between two ranks. Both call it. */
int rd_own_transfer(struct rondo_comm *comm, int from, int to, void *bytes, size_t size);

/* Sends `size` bytes to a rank, and receives as many from it at the same time. Both call it. */
int rd_own_exchange(struct rondo_comm *comm, int peer, void *out, void *in, size_t size);

/* A barrier of these ranks, by transfers. Each of them calls it; `at` is its index. */
int rd_own_barrier(struct rondo_comm *comm, const int *ranks, int count, int at);

/* Broadcasts the first rank's bytes to these ranks, by transfers down a binomial tree. The same. */
int rd_own_broadcast(
	struct rondo_comm *comm, const int *ranks, int count, int at, void *bytes, size_t size);

#endif
