/*
 * Closes descriptors in forked children. While a child holds a descriptor, the connection does not
 * end with the process that made it. Before fork() returns in the child, a handler closes the
 * descriptors and sets them to -1.
 */
#ifndef RD_CLOSE_ON_FORK_H
#define RD_CLOSE_ON_FORK_H

struct rd_close_on_fork {
	int *fd; /* set to -1 in the child */
	struct rd_close_on_fork *next, **at;
};

/* Registers a descriptor until rd_close_on_fork_remove(), which must come before the descriptor
   is closed. Any thread may call. Without memory for the fork handlers, children keep the
   descriptor. */
void rd_close_on_fork_add(struct rd_close_on_fork *unshared, int *fd);
void rd_close_on_fork_remove(struct rd_close_on_fork *unshared);

#endif
