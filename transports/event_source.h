/*
 * Event sources: descriptors in an endpoint's own epoll, each with its handler.
 */
#ifndef RD_EVENT_SOURCE_H
#define RD_EVENT_SOURCE_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/epoll.h>
#include <unistd.h>

/*
 * The handler of a descriptor's events. handle() in verbs returns whether a link has moved, which a
 * waiting call takes for a sign of life; in tcp false, as the event may be another comm's. handle()
 * in shm returns whether there was something to handle.
 */
struct rd_event_source {
	bool (*handle)(void *owner);
	void *owner;
};

/* epoll_ctl(2), for a source; NULL to remove a descriptor, or for one without a handler. */
static inline int rd_event_watch(
	int epoll_fd, int operation, int fd, uint32_t events, struct rd_event_source *source)
{
	struct epoll_event event = { .events = events, .data.ptr = source };

	return epoll_ctl(epoll_fd, operation, fd, &event);
}

/* Removes and closes a descriptor, and sets it to -1; -1 is none. The removal is explicit: a child
   forked by the program may hold the same socket, which keeps it in the epoll. */
static inline void rd_event_close(int epoll_fd, int *fd)
{
	if (*fd < 0)
		return;
	epoll_ctl(epoll_fd, EPOLL_CTL_DEL, *fd, NULL);
	close(*fd);
	*fd = -1;
}

#endif
