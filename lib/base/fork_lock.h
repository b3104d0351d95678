/*
 * Locks that a forked child finds free. fork() copies a mutex as it is: if another thread holds it
 * then, no thread of the child will ever unlock it. These are taken before fork(), and released
 * after it in both processes.
 */
#ifndef RD_FORK_LOCK_H
#define RD_FORK_LOCK_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>

/* Has static storage. A thread that holds one takes only those of lower levels, and does not
   fork. */
struct rd_fork_lock {
	pthread_mutex_t mutex;
	int level;
	_Atomic bool known; /* to the handlers of fork() */
	struct rd_fork_lock *next;
};

/* The levels; locks of one level are never held together. */
enum { RD_FORK_LEAF, RD_FORK_DEVICES, RD_FORK_REGISTRATIONS, RD_FORK_BACKGROUND };

#define RD_FORK_LOCK(level) \
	{ \
		PTHREAD_MUTEX_INITIALIZER, level, false, NULL \
	}

/* Without memory for the handlers, a child may find the lock held. */
void rd_fork_lock(struct rd_fork_lock *lock);
void rd_fork_unlock(struct rd_fork_lock *lock);

#endif
