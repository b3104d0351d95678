/*
 * The listener and the strangers of shm: accepted connections that no pair owns yet. One with a
 * valid greeting goes to its pair, or waits here until that is created. Any other is closed. Their
 * number is bounded: at the bound, the oldest without a greeting is closed.
 */
#ifndef RD_SHM_STRANGERS_H
#define RD_SHM_STRANGERS_H

#include "transports/event_source.h"
#include "transports/shm/card.h"
#include "transports/shm/pair.h"

#define RD_SHM_STRANGERS_MAX 32

struct rd_shm_strangers;

struct rd_shm_stranger {
	struct rd_event_source source;
	struct rd_shm_strangers *strangers;
	int fd; /* -1: this place is free */
	uint64_t age;
	pid_t pid;
	bool greeted; /* it waits for its pair; greeting and fds are valid */
	struct rd_shm_greeting greeting;
	int fds[2];
};

struct rd_shm_strangers {
	struct rd_shm_endpoint *endpoint;
	struct rd_event_source source;
	int listener; /* -1: none */
	struct rd_shm_stranger at[RD_SHM_STRANGERS_MAX];
	uint64_t age; /* of the next */
	bool lacked; /* a line is logged */
	int forbidden; /* the error of accept(): none will ever come; 0: it works */
};

/* Initialises without a descriptor: finish() and abandon() may follow. */
void rd_shm_strangers_init(struct rd_shm_strangers *strangers, struct rd_shm_endpoint *endpoint);

/* Listens at the address of the endpoint's card. Errors: RONDO_SYSTEM. */
int rd_shm_strangers_listen(struct rd_shm_strangers *strangers);

/* Hands over strangers that connected before their pair was created; fails pairs whose peer can
   never be accepted. */
void rd_shm_strangers_match(struct rd_shm_strangers *strangers);

/* Closes all of them, and the listener. */
void rd_shm_strangers_finish(struct rd_shm_strangers *strangers);
/* The same in a forked child: leaves the epoll, which is the parent's too, as it is. */
void rd_shm_strangers_abandon(struct rd_shm_strangers *strangers);

#endif
