/*
 * The line of a comm: it, and those that it has shrunk to, one after the other. All have one place
 * where their rank can be met after a failure (shrink/): a socket that listens from the first
 * comm's creation on. Ranks are told apart by their number in the first comm, their origin.
 */
#ifndef RD_LINE_H
#define RD_LINE_H

#include <stdint.h>
#include <sys/socket.h>

#include "base/close_on_fork.h"
#include "bootstrap/member.h"

struct rd_line {
	uint64_t id; /* the id of the first comm; 0: this comm is the first */
	struct rd_line_place place; /* of this rank */
	int listen_fd; /* -1: none */
	struct rd_close_on_fork unshared;
};

/* Listens at any port of this address, a socket's own: the line's place, of this origin. Again:
   closes the socket from before. RONDO_SYSTEM. */
int rd_line_open(struct rd_line *line, const struct sockaddr_storage *address, int origin);
/* Another comm of the line, with the same socket. line: without one. RONDO_SYSTEM. */
int rd_line_join(struct rd_line *line, const struct rd_line *of);
void rd_line_close(struct rd_line *line);

#endif
