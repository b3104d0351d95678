/*
 * The backlog of shm: the listener, and accepted connections that have not sent a hello. One with a
 * valid hello goes on as the connection of its station. Any other is closed. Their number is
 * bounded: at the bound, the oldest is closed.
 */
#ifndef RD_SHM_BACKLOG_H
#define RD_SHM_BACKLOG_H

#include "transports/event_source.h"
#include "transports/shm/connection.h"

#define RD_SHM_BACKLOG_MAX 32

struct rd_shm_backlog;

struct rd_shm_pending {
	struct rd_event_source source;
	struct rd_shm_backlog *backlog;
	int fd; /* -1: this place is free */
	uint64_t age;
	pid_t pid;
};

struct rd_shm_backlog {
	struct rd_shm_station *station;
	struct rd_event_source source;
	int listener; /* -1: none */
	struct rd_shm_pending *at[RD_SHM_BACKLOG_MAX]; /* used ones first; NULL: the others */
	uint64_t age; /* of the next */
	bool lacked; /* a line is logged */
	int forbidden; /* the error of accept(): none will ever come; 0: it works */
};

/* Initialises without a descriptor: finish() and abandon() may follow. */
void rd_shm_backlog_init(struct rd_shm_backlog *backlog, struct rd_shm_station *station);

/* Listens at the address of the station's card. Errors: RONDO_SYSTEM. */
int rd_shm_backlog_listen(struct rd_shm_backlog *backlog);

/* Where no peer can ever be accepted, connections that wait for one fail. */
void rd_shm_backlog_fail_awaited(const struct rd_shm_backlog *backlog);

/* Closes the listener, and all of them. */
void rd_shm_backlog_finish(struct rd_shm_backlog *backlog);
/* The same in a forked child: leaves the epoll, which is the parent's too, as it is. */
void rd_shm_backlog_abandon(struct rd_shm_backlog *backlog);

#endif
