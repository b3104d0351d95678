/*
 * The strangers of tcp: accepted sockets that no connection has taken yet. One with a valid hello
 * goes to its connection, or waits here until that begins. Any other is closed without an answer.
 * Their number is bounded: at the bound the oldest is closed.
 */
#ifndef RD_TCP_STRANGERS_H
#define RD_TCP_STRANGERS_H

#include "topo/place.h"
#include "rondo/transport.h"
#include "base/settings.h"
#include "transports/tcp/card.h"

/* The connection has taken the socket, refuses it, or does not exist yet. */
enum rd_tcp_admission { RD_TCP_TAKEN, RD_TCP_REFUSED, RD_TCP_EARLY };

struct rd_tcp_stranger;

/* The connector sets all fields but the lists. */
struct rd_tcp_strangers {
	const struct rd_local *local;
	const uint8_t *key; /* [RD_TCP_KEY_SIZE], from this rank's card */
	const int *epoll_fd; /* the epoll that watches them */
	/* Called for a socket with a valid hello. */
	enum rd_tcp_admission (*admit)(void *owner, int fd, const struct rd_tcp_hello *hello);
	void *owner;

	struct rd_tcp_stranger *due; /* without a whole hello; the oldest first */
	int due_count;
	struct rd_tcp_stranger *early; /* with a hello, before their connection exists */
};

/* Takes ownership of a new socket. True: a connection has taken it. */
bool rd_tcp_strangers_add(struct rd_tcp_strangers *strangers, int fd);

/* Hands over the socket that came before its connection, with its hello; -1: none. */
int rd_tcp_strangers_take(
	struct rd_tcp_strangers *strangers, int from, int channel, struct rd_tcp_hello *hello);

/* Closes all of them. */
void rd_tcp_strangers_finish(struct rd_tcp_strangers *strangers);

/* Closes a socket that no connection takes, and logs the reason. */
void rd_tcp_reject(int fd, const char *why);

#endif
