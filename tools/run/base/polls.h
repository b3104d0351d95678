/*
 * The descriptors that the main loop waits for. Before each poll() every part adds its own and
 * keeps their indices; after it, the part asks for their events.
 */
#ifndef RUN_BASE_POLLS_H
#define RUN_BASE_POLLS_H

#include <poll.h>

struct polls {
	struct pollfd *fds;
	int count, capacity;
};

/* A negative fd is never ready. Returns the index, valid until count becomes 0 again. */
int polls_add(struct polls *polls, int fd, short events);
void polls_finish(struct polls *polls);

#endif
