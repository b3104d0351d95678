/*
 * Descriptors that a forked child must not hold: while it does, a connection does not end with the
 * process that made it. The child closes them, and marks them as closed, before fork() returns
 * there.
 */
#ifndef RD_CLOSE_ON_FORK_H
#define RD_CLOSE_ON_FORK_H

struct rd_close_on_fork {
	int *fd; /* -1 from then on, in the child */
	struct rd_close_on_fork *next, **at;
};

/* From now on, until rd_close_on_fork_remove(), which must come before the descriptor is closed. Any
   thread may call. Where there is no memory to be told of forks, children keep the descriptor. */
void rd_close_on_fork_add(struct rd_close_on_fork *unshared, int *fd);
void rd_close_on_fork_remove(struct rd_close_on_fork *unshared);

#endif
