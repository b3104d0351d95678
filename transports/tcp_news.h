/*
 * Events of sockets, and the objects that handle them.
 */
#ifndef RD_TCP_NEWS_H
#define RD_TCP_NEWS_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/epoll.h>

/* The handler of a socket's events. take() returns whether a link has moved. Traffic of a
   stranger returns false: a waiting call must not take it for a sign of life. */
struct rd_tcp_source {
	bool (*take)(void *owner);
	void *owner;
};

/* epoll_ctl(2), for a source; NULL to remove a socket, or for one without a handler. */
static inline int rd_tcp_watch(
	int epoll_fd, int operation, int fd, uint32_t events, struct rd_tcp_source *source)
{
	struct epoll_event event = { .events = events, .data.ptr = source };

	return epoll_ctl(epoll_fd, operation, fd, &event);
}

#endif
