/*
 * Connections that have come to a comm's place (lineage.h), of ranks that shrink the comm. Each
 * greets with the id of its lineage, and waits here until it is taken. Where too many wait, the
 * oldest makes room: it comes again.
 *
 * Connections that say nothing stay as well, for they show a shrink that this process is there.
 * Where too many do, the oldest makes room.
 *
 * The control thread serves them. Any thread may take one.
 */
#ifndef RD_ARRIVALS_H
#define RD_ARRIVALS_H

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/close_on_fork.h"
#include "base/settings.h"
#include "bootstrap/control_message.h"
#include "net/door.h"

struct rd_greeted {
	uint64_t id; /* of the lineage */
	struct rd_arrival arrival; /* its greeting lies in `greeting` */
	struct rd_close_on_fork unshared;
	struct rd_greeted *next;
	unsigned char greeting[];
};

struct rd_arrivals {
	pthread_mutex_t lock;
	/* Under the lock: */
	struct rd_door *door; /* NULL: no connection has come yet */
	struct rd_greeted *first, **end; /* in the order in which they came */
	int count, most;
	int wake_fd; /* an eventfd, written where one has come that shrinks; -1: none */
	int error; /* why no connection can be accepted, an errno; 0: nothing is wrong */
};

void rd_arrivals_init(struct rd_arrivals *arrivals);
/* The first connection has come to this listening socket, which stays the caller's: accepts there,
   with a copy. `most` connections wait that have greeted, and as many that have not. The epoll
   reports events with this mark. RONDO_MEMORY, RONDO_SYSTEM. */
int rd_arrivals_open(struct rd_arrivals *arrivals, int listen_fd,
	const struct rd_settings *settings, int most, int epoll_fd, uint64_t mark);
/* After an event, and at the deadline. */
void rd_arrivals_serve(struct rd_arrivals *arrivals, int64_t now_ms);
int64_t rd_arrivals_deadline(struct rd_arrivals *arrivals);
/* Closes all. Opened again, it takes others. */
void rd_arrivals_close(struct rd_arrivals *arrivals, int epoll_fd);
void rd_arrivals_finish(struct rd_arrivals *arrivals);
/* The same in a forked child. */
void rd_arrivals_abandon(struct rd_arrivals *arrivals);

/* The next one with this id, of which the caller takes over the wire, and frees the rest by free();
   NULL: none has come, or it has gone again. */
struct rd_greeted *rd_arrivals_take(struct rd_arrivals *arrivals, uint64_t id);
/* Where to write that one has come that shrinks; -1: nowhere. */
void rd_arrivals_wake(struct rd_arrivals *arrivals, int wake_fd);
int rd_arrivals_error(struct rd_arrivals *arrivals);

#endif
