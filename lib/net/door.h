/*
 * A door: listening sockets, and the connections accepted from them that have no owner yet. Each
 * proves that it has the job's secret, where there is one, and sends a greeting: the first message
 * of its protocol. Then it goes to its owner. No byte behind the greeting is read.
 *
 * The number and the time of pending connections are bounded. Where one more comes, or descriptors
 * lack, the oldest is closed, and those last whose other end has shown the secret: a replay may
 * have, too. It is read before, so that no greeting that has come is lost.
 *
 * The door has an epoll of its own, which its owner's epoll or poll() watches. One thread at a
 * time.
 */
#ifndef RD_DOOR_H
#define RD_DOOR_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/close_on_fork.h"
#include "net/wire.h"

#define RD_DOOR_LISTENERS 17
#define RD_DOOR_MOST 128 /* pending connections, beside those that are expected */

struct rd_door_rules {
	const unsigned char *psk; /* [RD_PSK_SIZE], the owner's; NULL: no proof is needed */
	/* A connection that does not begin with TLS needs no proof: the owner looks where it is
	   from. */
	bool takes_plain;
	int most; /* pending connections */
	int greeting_ms; /* for the proof and the greeting */
	size_t greeting_most; /* bytes */
	/* How many bytes the greeting has that begins so: `size` at most where it is whole; more
	   where bytes are missing, as far as that is known; -1: none begins so. */
	long (*greeting_size)(const unsigned char *bytes, size_t size);
};

/* A connection that has come: the door's, then its owner's. */
struct rd_arrival {
	struct rd_wire wire; /* TLS may hold bytes of it: it is read once before it is waited for */
	/* For who has it: */
	struct rd_close_on_fork unshared;
	struct rd_arrival *next;
	int mark;
	/* For the door: */
	bool known; /* whether it begins with TLS */
	int64_t until_ms;

	size_t greeting_size; /* so far, at the door */
	unsigned char greeting[];
};

struct rd_door;

/* Without a listening socket. rules: copied. RONDO_MEMORY, RONDO_SYSTEM. */
int rd_door_create(struct rd_door **door, const struct rd_door_rules *rules);
/* Closes all that it holds. NULL is none. */
void rd_door_destroy(struct rd_door *door);

/* Takes over a listening socket. RONDO_SYSTEM: it is closed; RD_DOOR_LISTENERS are there, too. */
int rd_door_listen(struct rd_door *door, int fd);
/* The listening socket at this address, whatever the port; -1: there is none. */
int rd_door_find(const struct rd_door *door, const struct sockaddr_storage *address);
/* Closes all listening sockets. Pending connections stay. */
void rd_door_close(struct rd_door *door);

/* Readable where rd_door_serve() has something to do. */
int rd_door_fd(const struct rd_door *door);
/* When rd_door_serve() is due, at the latest; RD_NEVER. */
int64_t rd_door_deadline(const struct rd_door *door);

/* Accepts and reads what has come, a bounded number at a time, and closes those whose time is over.
   rd_door_next() is due. */
void rd_door_serve(struct rd_door *door, int64_t now_ms);
/* The next connection that has greeted, of which the caller takes over the wire, and frees the rest
   by free(). NULL: none now. */
struct rd_arrival *rd_door_next(struct rd_door *door);

/* Why no connection can be accepted, an errno; 0: nothing is wrong. It is tried again ten times a
   second. *since_ms: since when; NULL: not asked for. */
int rd_door_error(const struct rd_door *door, int64_t *since_ms);
/* How many connections did not prove that they are of this job, or sent something else. */
unsigned rd_door_foreign(const struct rd_door *door);

/* Closes a wire that its owner does not want, or that broke. Logs the first such ones, then ever
   fewer: 1, 2, 4, 8, ... */
void rd_door_reject(struct rd_door *door, struct rd_wire *wire, const char *why);

#endif
