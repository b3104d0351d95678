/*
 * The connections of a shrink (shrink.h): does what its quorum asks for, and tells it what happens.
 */
#ifndef RD_SHRINK_CONNECTIONS_H
#define RD_SHRINK_CONNECTIONS_H

#include <poll.h>
#include <pthread.h>

#include "bootstrap/control_socket.h"
#include "bootstrap/shrink/quorum.h"
#include "bootstrap/shrink/shrink.h"

/* A connection to a rank's place, as rd_quorum_peer.dials. */
struct rd_dialled {
	struct rd_control_socket *socket; /* NULL: none */
	unsigned attempt; /* of the quorum */
};

/* While the ranks make the new comm, a thread watches their connections: a rank that dies before it
   comes to the new comm ends the making at once, not by its timeout. */
struct rd_shrink_watch {
	bool runs;
	pthread_t thread;
	int stop_fd; /* an eventfd; -1: none */
	struct pollfd *fds; /* [count] */
	int count;
};

struct rd_shrink {
	const struct rd_settings *settings; /* the caller's */
	struct rd_control *control; /* the caller's */
	const struct rd_lineage *lineage;
	struct rd_quorum quorum;
	int epoll_fd;
	int arrival_fd; /* an eventfd, readable where one has come */
	struct rd_dialled *dialled; /* [size] */
	struct rd_control_socket **arrived; /* [size]: by which a member came; NULL: none */
	struct rd_shrink_watch watch;
};

/* RONDO_MEMORY, RONDO_SYSTEM. */
int rd_shrink_open(struct rd_shrink *shrink);
/* Closes what is open; also after an error of rd_shrink_open(). */
void rd_shrink_close(struct rd_shrink *shrink);
/* Runs the quorum until it neither meets nor votes. */
void rd_shrink_run(struct rd_shrink *shrink);
/* Sends and closes what the quorum asks for, after the caller has told it something. */
void rd_shrink_serve(struct rd_shrink *shrink);
/* Without the watch, where no thread can be made, the timeout ends the making. */
void rd_shrink_watch_start(struct rd_shrink *shrink);
/* Also where none was started. */
void rd_shrink_watch_stop(struct rd_shrink *shrink);

#endif
