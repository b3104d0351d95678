/*
 * Strangers: connections that came in, on which a hello is due. One that proves itself gets its
 * link, or waits here until that is opened; any other is closed, and told nothing. They are few,
 * however many come: the oldest goes.
 */
#ifndef RD_TCP_STRANGERS_H
#define RD_TCP_STRANGERS_H

#include "topo/place.h"
#include "rondo/transport.h"
#include "base/settings.h"
#include "transports/tcp_card.h"

/* What becomes of a connection: its link has it, wants none, or is not open yet. */
enum rd_tcp_welcome { RD_TCP_TAKEN, RD_TCP_REFUSED, RD_TCP_EARLY };

struct rd_tcp_stranger;

/* All but the lists is set by the endpoint, whose part it is. */
struct rd_tcp_strangers {
	const struct rd_local *local;
	const uint8_t *key; /* [RD_TCP_KEY_SIZE] of our card */
	const int *news; /* the epoll that tells of them */
	/* One has proved itself. */
	enum rd_tcp_welcome (*welcome)(void *owner, int fd, const struct rd_tcp_hello *hello);
	void *owner;

	struct rd_tcp_stranger *due; /* the oldest first */
	int due_count;
	struct rd_tcp_stranger *early;
};

/* Takes possession of a connection that has just come. True: a link has taken it. */
bool rd_tcp_strangers_add(struct rd_tcp_strangers *strangers, int fd);

/* Hands over the one that came too early for this link, with its hello; -1: none has. */
int rd_tcp_strangers_take(
	struct rd_tcp_strangers *strangers, int from, int channel, struct rd_tcp_hello *hello);

/* Closes all. */
void rd_tcp_strangers_finish(struct rd_tcp_strangers *strangers);

/* Closes one that is nobody's, and logs why. */
void rd_tcp_turn_away(int fd, const char *why);

#endif
