/*
 * Event sources: the descriptors that an endpoint watches by an epoll of its own, and their
 * handlers.
 */
#ifndef RD_EVENT_SOURCE_H
#define RD_EVENT_SOURCE_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/epoll.h>
#include <unistd.h>

/* The handler of a descriptor's events. tcp: handle() returns whether a link has moved. Traffic of
   a stranger returns false: a waiting call must not take it for a sign of life. */
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

/* Removes and closes a descriptor, and sets it to -1; -1 is none. The removal is explicit because a
   child forked by the program may hold the same socket open. */
static inline void rd_event_close(int epoll_fd, int *fd)
{
	if (*fd < 0)
		return;
	epoll_ctl(epoll_fd, EPOLL_CTL_DEL, *fd, NULL);
	close(*fd);
	*fd = -1;
}

#endif
