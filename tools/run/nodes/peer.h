/*
 * A connection of two agents (net/connection.h). Where the job has a secret, it is encrypted, and
 * no message passes before both sides have proved that they have the secret.
 *
 * Both sides send a ping every 150 ms, and their kernels acknowledge it. Where no acknowledgement
 * comes for about 650 ms, the host is off or the cable is out, and the connection ends. An agent
 * that is merely busy is not taken for dead. From a patient WORLD (message.h) until its ranks end,
 * the time is 30 s.
 */
#ifndef RUN_NODES_PEER_H
#define RUN_NODES_PEER_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/socket.h>

#include "net/address.h"
#include "net/connection.h"
#include "run/base/polls.h"
#include "run/nodes/message.h"
#include "run/secret.h"

struct peer {
	struct rd_connection connection;
	bool connecting;
	bool ends; /* nothing more is sent; it is closed once the other side closes it */
	bool lost; /* for `reason`; messages that came before may be left */
	bool foreign; /* lost, because it sends something else, or has another secret */
	bool barred; /* lost by an error of connect() that another attempt would meet too */
	bool heard; /* bytes have come */
	char reason[128];
	char address[ADDRESS_SIZE]; /* numeric, of the other side */
	int64_t deadline_ms; /* for the connection, or for its end; 0: none */
	int64_t ping_ms; /* the time of the next ping */
	int poll;
};

/* No connection, as after peer_close(). */
#define PEER_NONE \
	{ \
		.connection.wire = RD_WIRE(-1), .lost = true, .poll = -1 \
	}

/* Starts to connect; a failure shows as a loss. secret: the other side must have it; without one,
   it must have none. */
void peer_connect(struct peer *peer, const struct rd_addresses *addresses, int index,
	const struct secret *secret);
/* Takes over a wire that was accepted. */
void peer_adopt(struct peer *peer, struct rd_wire *wire);
/* At any time, and more than once. */
void peer_close(struct peer *peer);

/* Queues a message. A peer that does not read its messages is lost. */
void peer_send(struct peer *peer, const struct message *message);
/* The next message, PING apart; false: none yet. */
bool peer_next(struct peer *peer, struct message *message);
/* Ends the connection once all is sent. It is lost when the other side has closed it, or 2 s
   later. */
void peer_end(struct peer *peer);

void peer_add_polls(struct peer *peer, struct polls *polls);
void peer_take_polls(struct peer *peer, const struct polls *polls);
/* The next moment that peer_on_clock() waits for; 0: none. */
int64_t peer_deadline(const struct peer *peer);
void peer_on_clock(struct peer *peer, int64_t now_ms);

#endif
