/*
 * A Unix socket at which a process of the same user, or root, asks for a status: `rondo-run
 * --status`. Its name is abstract (unix(7)): RD_STATUS_NAME, the process, a number, and the launch
 * (bootstrap/inherited.h). So it is gone with its process, and RD_STATUS_SOCKETS lists all.
 *
 * A connection gets a text, a line for each comm, and is closed. No call blocks: of a text that
 * is longer than the socket's buffer, the rest is sent as it is read. Others that ask wait
 * meanwhile, for RD_STATUS_ANSWER_MS at most.
 */
#ifndef RD_STATUS_H
#define RD_STATUS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/close_on_fork.h"

#define RD_STATUS_NAME "rondo-status"
#define RD_STATUS_SOCKETS "/proc/net/unix"
#define RD_STATUS_MAX (4 << 20) /* bytes of a text, */
#define RD_STATUS_LINE_MAX 16384 /* and of a line in it */
#define RD_STATUS_ANSWER_MS 1000

struct rd_status {
	int listen_fd; /* -1: none */
	int epoll_fd; /* has it, */
	void *mark; /* and its events, and the connection's */
	struct rd_close_on_fork unshared, unshared_answer;

	int fd; /* the connection that gets the text; -1: none */
	char *text;
	size_t size, sent;
	bool waits; /* for the reader, until then: */
	int64_t end_ms;
};

void rd_status_init(struct rd_status *status);
/* Events at epoll_fd have this mark from now on; rd_status_accept() follows each. On an error
   there is no socket, and errno says why. For one thread at a time, as all below. */
int rd_status_open(struct rd_status *status, uint64_t launch_id, int epoll_fd, void *mark);
/* Also where none was opened. */
void rd_status_close(struct rd_status *status);

/* First sends more of the text under way. True: rd_status_answer() is to answer a process that
   may ask. Takes no more than a few that may not ask, and hangs up on them. */
bool rd_status_accept(struct rd_status *status, int64_t now_ms);
/* Sends the text, which it takes over. NULL: closes the connection. */
void rd_status_answer(struct rd_status *status, char *text, size_t size, int64_t now_ms);
/* When rd_status_accept() is due without an event: the reader is late. */
int64_t rd_status_deadline(const struct rd_status *status);

#endif
