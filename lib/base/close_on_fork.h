/*
 * Descriptors that a forked child must not hold: while it does, a connection does not end with the
 * process that made it. The child closes them, and marks them as closed, before fork() returns
 * there.
 */
#ifndef RD_CLOSE_ON_FORK_H
#define RD_CLOSE_ON_FORK_H

struct rd_unshared {
	int *fd; /* -1 from then on, in the child */
	struct rd_unshared *next, **at;
};

/* From now on, until rd_unshared_remove(), which must come before the descriptor is closed. Any
   thread may call. Where there is no memory to be told of forks, children keep the descriptor. */
void rd_unshared_add(struct rd_unshared *unshared, int *fd);
void rd_unshared_remove(struct rd_unshared *unshared);

#endif
