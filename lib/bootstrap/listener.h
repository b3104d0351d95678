/*
 * The listener of a rank, from its first comm's creation on. The jobs (job.h) of its comms share it
 * with tcp. Three kinds of connections come, and wait until they are taken:
 *
 * - Those of tcp. Each greets with a hello (transports/tcp/card.h), whose receiver knows the peer's
 *   host: it need not have proved the secret. All others must.
 * - Trunks (net/trunk.h), by which other processes make groups with this rank. Each names its job.
 * - Ranks that shrink a comm of the job. Each greets with GATHER, and waits among the arrivals of
 *   its lineage. A GATHER without an origin asks whether this rank still has a comm of the lineage:
 *   its connection stays open as long as there is one.
 *
 * A rank that comes for a lineage of which no comm is left here gets LEFT, after the proof of the
 * secret as any message. A shrink takes that for a refused connection.
 *
 * It listens at the addresses of tcp, one an interface, and at the one where the other ranks look
 * for a lineage, if that is none of these. It does until the jobs have ended, and all comms of
 * their lineages have, too. The thread of each job serves it, and each thread that connects by tcp.
 * A comm of one rank has no thread: a rank that comes late connects, and waits for an answer until
 * its timeout.
 *
 * Any thread may call. The lock is the last one that a thread takes.
 */
#ifndef RD_LISTENER_H
#define RD_LISTENER_H

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/socket.h>

#include "base/settings.h"
#include "bootstrap/member.h"
#include "net/door.h"
#include "net/socket.h"

#define RD_HELLO_FIRST 'r' /* the first byte of a hello of tcp, */
#define RD_HELLO_SIZE 48 /* and its bytes */

enum rd_arrivals_kind { RD_ARRIVALS_LINEAGE, RD_ARRIVALS_TRUNKS, RD_ARRIVALS_TCP };

/* The connections that have come for one lineage, the trunks of one job, or those of tcp. */
struct rd_arrivals {
	struct rd_listener *listener;
	enum rd_arrivals_kind kind;
	uint64_t id; /* of the first comm; 0: not known yet, and of tcp */
	/* Under the listener's lock: */
	int users; /* comms of the lineage, which each release it */
	int wake_fd; /* an eventfd, written where one has come to be taken; -1: none */
	int count, most;
	struct rd_arrival *first, **end; /* in the order in which they came */
	struct rd_arrivals *next;
	_Atomic bool due; /* one has come, or none can; cleared by its user, without the lock */
};

struct rd_listener {
	pthread_mutex_t lock;
	int references;
	struct rd_door *door; /* gets sockets of tcp before another thread has the listener */
	struct rd_arrivals *arrivals; /* of all lineages and jobs */
	unsigned char psk[RD_PSK_SIZE];
	bool has_psk;
	int unreachable_ms; /* of the settings */
	/* Set by rd_lineage_place(): */
	struct sockaddr_storage near; /* where it listens, */
	char address[RD_NUMERIC_ADDRESS]; /* as text; "": at any address of this host */
	uint32_t port;
};

/* With one reference; each of its arrivals has another. For comms with the secret of these
   settings. RONDO_MEMORY, RONDO_SYSTEM. */
int rd_listener_create(struct rd_listener **listener, const struct rd_settings *settings);
/* The last one closes all sockets. NULL is none. */
void rd_listener_release(struct rd_listener *listener);
/* An epoll reports its events, or no longer. RONDO_SYSTEM. */
int rd_listener_watch(struct rd_listener *listener, int epoll_fd, uint64_t mark);
void rd_listener_unwatch(struct rd_listener *listener, int epoll_fd);
/* After an event, and at the deadline. */
void rd_listener_serve(struct rd_listener *listener, int64_t now_ms);
/* As those of the door. */
int64_t rd_listener_deadline(struct rd_listener *listener);
int rd_listener_error(struct rd_listener *listener, int64_t *since_ms);
void rd_listener_reject(struct rd_listener *listener, struct rd_wire *wire, const char *why);

/* Those of this kind and id, which write this eventfd, or -1. `most` wait: where one more comes,
   those that have ended make room, then the oldest, and those last that have proved the secret.
   NULL: no memory. */
struct rd_arrivals *rd_arrivals_open(struct rd_listener *listener, enum rd_arrivals_kind kind,
	uint64_t id, int most, int wake_fd);
/* The id is known. */
void rd_arrivals_name(struct rd_arrivals *arrivals, uint64_t id, int most);
/* One more comm of the lineage. */
struct rd_arrivals *rd_arrivals_share(struct rd_arrivals *arrivals);
/* A comm of the lineage less, or the job: the last one closes its connections. NULL is none. */
void rd_arrivals_release(struct rd_arrivals *arrivals);

/* The next one, of which the caller takes over the wire, and frees the rest by free(); NULL: none
   has come, or it has gone again. */
struct rd_arrival *rd_arrivals_take(struct rd_arrivals *arrivals);
/* Where to write that one has come; -1: nowhere. */
void rd_arrivals_wake(struct rd_arrivals *arrivals, int wake_fd);

/*
 * The lineage of a comm: it, and those that it has shrunk to, one after the other. All have one
 * place where their rank is met after a failure (shrink/): its listener, which lives as long as one
 * of them. Ranks are told apart by their number in the first comm, their origin.
 */
struct rd_lineage {
	uint64_t id; /* the id of the first comm; 0: this comm is the first */
	struct rd_lineage_address place; /* of this rank */
	struct rd_arrivals *arrivals; /* which come there; NULL: none do */
};

/* The place of this rank in a comm, unless that has one: at the address of its own socket, or where
   the listener has been met before (NULL). RONDO_SYSTEM. */
int rd_lineage_place(struct rd_lineage *lineage, struct rd_listener *listener, int origin,
	const struct sockaddr_storage *near);
/* The first comm, which has this id now: ranks that shrink it may come. most: as
   rd_arrivals_open(). RONDO_MEMORY. */
int rd_lineage_begin(
	struct rd_lineage *lineage, uint64_t id, struct rd_listener *listener, int most);
/* Another comm of the lineage. */
void rd_lineage_join(struct rd_lineage *lineage, const struct rd_lineage *of);
/* The comm ends, or has shrunk; again: does nothing. */
void rd_lineage_end(struct rd_lineage *lineage);

/* A comm that meets at this place of a rank of another comm, whose settings these are. */
void rd_lineage_meet(struct rd_settings *settings, const struct rd_lineage_address *place);

#endif
