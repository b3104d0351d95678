/*
 * News of sockets: what an epoll tells, and who is told.
 */
#ifndef RD_TCP_NEWS_H
#define RD_TCP_NEWS_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/epoll.h>

/* Whom news of a socket is for. take(): whether a link has moved; what a stranger does is nothing
   that a waiting call may count as a sign of life. */
struct rd_tcp_source {
	bool (*take)(void *owner);
	void *owner;
};

/* epoll_ctl(2), for a source; NULL where it removes, or nobody is told. */
static inline int rd_tcp_watch(
	int epoll_fd, int operation, int fd, uint32_t events, struct rd_tcp_source *source)
{
	struct epoll_event event = { .events = events, .data.ptr = source };

	return epoll_ctl(epoll_fd, operation, fd, &event);
}

#endif
