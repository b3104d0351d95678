/*
 * The backlog of shm: the listener, and accepted connections that no pair owns yet. One with a
 * valid greeting goes to its pair, or is pending until that is created. Any other is closed. Their
 * number is bounded: at the bound, the oldest without a greeting is closed.
 */
#ifndef RD_SHM_BACKLOG_H
#define RD_SHM_BACKLOG_H

#include "transports/event_source.h"
#include "transports/shm/card.h"
#include "transports/shm/pair.h"

#define RD_SHM_BACKLOG_MAX 32

struct rd_shm_backlog;

struct rd_shm_pending {
	struct rd_event_source source;
	struct rd_shm_backlog *backlog;
	int fd; /* -1: this place is free */
	uint64_t age;
	pid_t pid;
	bool greeted; /* it waits for its pair; greeting and fds are valid */
	struct rd_shm_greeting greeting;
	int fds[2];
};

struct rd_shm_backlog {
	struct rd_shm_endpoint *endpoint;
	struct rd_event_source source;
	int listener; /* -1: none */
	struct rd_shm_pending *at[RD_SHM_BACKLOG_MAX]; /* used ones first; NULL: the others */
	uint64_t age; /* of the next */
	bool lacked; /* a line is logged */
	int forbidden; /* the error of accept(): none will ever come; 0: it works */
};

/* Initialises without a descriptor: finish() and abandon() may follow. */
void rd_shm_backlog_init(struct rd_shm_backlog *backlog, struct rd_shm_endpoint *endpoint);

/* Listens at the address of the endpoint's card. Errors: RONDO_SYSTEM. */
int rd_shm_backlog_listen(struct rd_shm_backlog *backlog);

/* Hands over connections that came before their pair was created; fails pairs whose peer can
   never be accepted. */
void rd_shm_backlog_match(struct rd_shm_backlog *backlog);

/* Closes the listener, and all of them. */
void rd_shm_backlog_finish(struct rd_shm_backlog *backlog);
/* The same in a forked child: leaves the epoll, which is the parent's too, as it is. */
void rd_shm_backlog_abandon(struct rd_shm_backlog *backlog);

#endif
