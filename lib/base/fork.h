/*
 * Detects handles inherited through fork(): a comm, a stream or a group belongs to the process
 * that made it. A forked child must not use its parent's. Their sockets, epolls and shared memory
 * are the parent's, and their threads do not run in the child.
 *
 * One rule for a child that destroys such a handle: it neither frees nor follows what another
 * thread of the parent may have been changing at the fork. Whether one was, a lock or a mark tells
 * that it held. State of a thread of its own has none: the child leaves it, and the fork closes its
 * descriptors (base/close_on_fork.h). The rest it frees.
 */
#ifndef RD_FORK_H
#define RD_FORK_H

#include <stdbool.h>

#include "base/hot_call.h"

/* Starts to count forks, in children alone. One call a process is enough. Each handle stores the
   number (hot_call.h) when it is made. */
int rd_forks_watch(void);

/* Returns whether a handle that stored `forks` belongs to a parent process. Makes no system
   call. */
static inline bool rd_is_inherited(unsigned forks)
{
	return __builtin_expect(forks != rd_process.forks, false);
}

/* Records that `function` refuses an inherited `thing`; returns RONDO_INVALID. */
int rd_refuse_inherited(const char *function, const char *thing);

#endif
