/*
 * fork(): which process a comm, a stream or a group belongs to. A forked child has copies of its
 * parent's, which it must not use: their sockets, epolls and shared memory are the parent's, and
 * their threads do not run in the child.
 */
#ifndef RD_FORK_H
#define RD_FORK_H

#include <stdbool.h>

/* Forks that lead from the process that watched first to this one. What is made notes it. */
extern unsigned rd_forks;

/* Counts forks from now on, in children alone; once a process is enough. */
int rd_forks_watch(void);

/* Whether what was made after so many forks is a parent's. It makes no system call. */
static inline bool rd_is_inherited(unsigned forks)
{
	return __builtin_expect(forks != rd_forks, false);
}

/* Records the refusal of `function` on such a thing; returns RONDO_INVALID. */
int rd_refuse_inherited(const char *function, const char *thing);

#endif
