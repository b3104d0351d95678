/*
 * The strangers of tcp: accepted sockets that no connection has taken yet. One with a valid hello
 * goes to its connection, or waits here until that begins. Any other is closed without an answer.
 *
 * Where the job has a secret, a stranger of another host proves that it has it before its hello is
 * read. Their number and their time are bounded. At the bound the oldest is closed, those last
 * that have shown the secret.
 */
#ifndef RD_TCP_STRANGERS_H
#define RD_TCP_STRANGERS_H

#include "topo/place.h"
#include "rondo/transport.h"
#include "base/settings.h"
#include "net/wire.h"
#include "transports/tcp/card.h"
#include "transports/tcp/timer.h"

/* The connection has taken the wire, refuses it, or does not exist yet. */
enum rd_tcp_admission { RD_TCP_TAKEN, RD_TCP_REFUSED, RD_TCP_EARLY };

struct rd_tcp_stranger;

/* The connector sets all fields above the line. */
struct rd_tcp_strangers {
	const struct rd_local *local;
	const uint8_t *key; /* [RD_TCP_KEY_SIZE], from this rank's card */
	const int *epoll_fd; /* the epoll that watches them */
	struct rd_tcp_timer *timer;
	/* Called for a wire with a valid hello. */
	enum rd_tcp_admission (*admit)(
		void *owner, struct rd_wire *wire, const struct rd_tcp_hello *hello);
	void *owner;
	/* ---- */
	struct rd_tcp_stranger *due; /* without a whole hello; the oldest first */
	int due_count;
	struct rd_tcp_stranger *early; /* with a hello, before their connection exists */
	unsigned dropped;
};

/* Takes ownership of a new socket. True: a connection has taken it. */
bool rd_tcp_strangers_add(struct rd_tcp_strangers *strangers, int fd);

/* Hands over the wire that came before its connection, with its hello. False: there is none. */
bool rd_tcp_strangers_take(struct rd_tcp_strangers *strangers, int from, int channel,
	struct rd_wire *wire, struct rd_tcp_hello *hello);

/* Closes the one that is to go first, for its descriptor. False: there is none. */
bool rd_tcp_strangers_make_room(struct rd_tcp_strangers *strangers);

/* Closes those whose time is over, and requests the timer for the others. */
void rd_tcp_strangers_check(struct rd_tcp_strangers *strangers);

/* Closes all of them. */
void rd_tcp_strangers_finish(struct rd_tcp_strangers *strangers);

/* Closes a wire that no connection takes. Logs the first ones, then ever fewer: 1, 2, 4, 8, ... */
void rd_tcp_reject(struct rd_tcp_strangers *strangers, struct rd_wire *wire, const char *why);

/* Removes a wire from the epoll, as rd_event_close(), and closes it. */
void rd_tcp_wire_close(int epoll_fd, struct rd_wire *wire);

#endif
