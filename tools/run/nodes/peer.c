#include "run/nodes/peer.h"

#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "net/socket.h"
#include "rondo.h"
#include "run/nodes/endpoint.h"

#define PING_MS 150
/*
 * The kernel ends a connection this long after it first sent a packet again, which it does 200 ms
 * after the packet. With the time to the next ping that is at most about 800 ms. A lost packet does
 * no harm: the acknowledgement of the next ping has it sent again.
 */
#define SILENCE_MS 450
/* As long as ranks wait for each other's heartbeats, by default. */
#define PATIENT_MS 30000
#define CONNECT_MS 1000
#define END_MS 2000
/* Bytes that may wait for a peer. */
#define OUT_MAX ((size_t)1 << 20)

static void lose(struct peer *peer, const char *reason)
{
	if (peer->lost)
		return;
	peer->lost = true;
	snprintf(peer->reason, sizeof(peer->reason), "%s", reason);
}

/* ---- Its life ------------------------------------------------------------------------------- */

static void set_silence(const struct peer *peer, unsigned ms)
{
	if (peer->connection.wire.fd >= 0)
		setsockopt(
			peer->connection.wire.fd, IPPROTO_TCP, TCP_USER_TIMEOUT, &ms, sizeof(ms));
}

/* While the ranks of a job run that cannot do without a node, the ranks decide whether it is
   lost. */
static void follow(const struct peer *peer, const struct message *message)
{
	switch (message->type) {
	case MESSAGE_WORLD:
		set_silence(peer, message->start.patient ? PATIENT_MS : SILENCE_MS);
		break;
	case MESSAGE_FAILED:
	case MESSAGE_LEAVE:
	case MESSAGE_STOP:
		set_silence(peer, SILENCE_MS);
		break;
	default:
		break;
	}
}

static void init(struct peer *peer, struct rd_wire *wire)
{
	int on = 1;

	*peer = (struct peer){ .ping_ms = rd_clock_ms() + PING_MS, .poll = -1 };
	rd_connection_init(&peer->connection, wire, MESSAGE_MAX, OUT_MAX);
	set_silence(peer, SILENCE_MS);
	setsockopt(peer->connection.wire.fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
}

void peer_connect(struct peer *peer, const struct rd_addresses *addresses, int index,
	const struct secret *secret)
{
	struct rd_wire wire = RD_WIRE(rd_connect_start(addresses, index));
	int error = wire.fd < 0 ? errno : 0;
	bool secured = error || !secret->has_psk || !rd_wire_secure(&wire, false, secret->psk);

	init(peer, &wire);
	endpoint_text((const struct sockaddr *)&addresses->at[index], peer->address);
	peer->connecting = true;
	peer->deadline_ms = rd_clock_ms() + CONNECT_MS;
	peer->barred = rd_is_permanent(error);
	if (error)
		lose(peer, strerror(error));
	else if (!secured)
		lose(peer, rondo_last_error());
}

void peer_adopt(struct peer *peer, struct rd_wire *wire)
{
	struct sockaddr_storage there;
	socklen_t size = sizeof(there);

	init(peer, wire);
	if (getpeername(peer->connection.wire.fd, (struct sockaddr *)&there, &size) == 0)
		endpoint_text((struct sockaddr *)&there, peer->address);
	else
		lose(peer, strerror(errno));
}

void peer_close(struct peer *peer)
{
	rd_connection_close(&peer->connection, false);
	lose(peer, "closed");
}

/* ---- Sending -------------------------------------------------------------------------------- */

static void lose_unproved(struct peer *peer, int error)
{
	peer->foreign = error == EPROTO;
	lose(peer, peer->foreign ? "a rondo-run that has another secret (RONDO_SECRET_FILE)"
				 : "it hung up: it may have no secret (RONDO_SECRET_FILE)");
}

static void flush(struct peer *peer)
{
	int error;

	if (peer->lost || peer->connecting)
		return;
	if (!rd_connection_flush(&peer->connection, &error)) {
		if (rd_connection_is_proved(&peer->connection))
			lose(peer, strerror(error));
		else
			lose_unproved(peer, error);
	} else if (peer->ends && rd_connection_is_flushed(&peer->connection)) {
		shutdown(peer->connection.wire.fd, SHUT_WR);
	}
}

void peer_send(struct peer *peer, const struct message *message)
{
	unsigned char *frame;

	if (peer->lost || peer->ends)
		return;
	frame = rd_connection_reserve(&peer->connection);
	if (!frame) {
		lose(peer, "it does not read its messages");
		return;
	}
	rd_connection_commit(&peer->connection, message_encode(message, frame));
	follow(peer, message);
	flush(peer);
}

void peer_end(struct peer *peer)
{
	if (peer->ends)
		return;
	peer->ends = true;
	peer->deadline_ms = rd_clock_ms() + END_MS;
	flush(peer);
}

/* ---- Receiving ------------------------------------------------------------------------------ */

/* One that has a secret does not answer one that has none. */
static const char *hung_up(const struct peer *peer)
{
	return peer->heard || peer->connection.wire.keyed
		       ? "its rondo-run has ended"
		       : "its rondo-run has ended, or has a secret (RONDO_SECRET_FILE)";
}

static void lose_by(struct peer *peer, int error)
{
	if (!rd_connection_is_proved(&peer->connection))
		lose_unproved(peer, error);
	else if (error == 0 || error == ECONNRESET)
		lose(peer, hung_up(peer));
	else if (error == ETIMEDOUT || error == EHOSTUNREACH || error == ENETUNREACH)
		lose(peer, "its host does not answer");
	else
		lose(peer, strerror(error));
}

/* Returns whether bytes have come. */
static bool receive(struct peer *peer)
{
	int error, got = peer->connecting ? 0 : rd_connection_read(&peer->connection, &error);

	peer->heard |= got > 0;
	if (got < 0)
		lose_by(peer, error);
	return got > 0;
}

/* 1: the next message; 0: it is not whole; -1: the peer is lost. */
static int take(struct peer *peer, struct message *message)
{
	const unsigned char *frame;
	long size = rd_connection_next(&peer->connection, &frame);

	if (size == 0)
		return 0;
	if (size < 0 || message_decode(message, frame, (size_t)size) <= 0) {
		peer->foreign = true;
		lose(peer, "something else than this version of rondo-run");
		return -1;
	}
	follow(peer, message);
	return 1;
}

/* Reads on: TLS may have taken more from the socket, of which poll() knows nothing. */
bool peer_next(struct peer *peer, struct message *message)
{
	int taken;

	do {
		while ((taken = take(peer, message)) > 0)
			if (message->type != MESSAGE_PING)
				return true;
	} while (taken == 0 && !peer->lost && receive(peer));
	return false;
}

static void finish_connecting(struct peer *peer)
{
	int error = rd_connect_finish(peer->connection.wire.fd);

	peer->connecting = false;
	peer->deadline_ms = 0;
	if (error)
		lose(peer, strerror(error));
	flush(peer);
}

/* ---- The loop ------------------------------------------------------------------------------- */

void peer_add_polls(struct peer *peer, struct polls *polls)
{
	bool sends = peer->connecting || rd_connection_waits(&peer->connection);

	peer->poll = polls_add(polls, peer->lost ? -1 : peer->connection.wire.fd,
		(short)(POLLIN | (sends ? POLLOUT : 0)));
}

void peer_take_polls(struct peer *peer, const struct polls *polls)
{
	short events = peer->poll < 0 ? 0 : polls->fds[peer->poll].revents;

	peer->poll = -1;
	if (!events || peer->lost)
		return;
	if (peer->connecting) {
		finish_connecting(peer);
		return;
	}
	if (events & POLLOUT)
		flush(peer);
	if (events & ~POLLOUT && !peer->lost)
		receive(peer);
}

int64_t peer_deadline(const struct peer *peer)
{
	if (peer->lost)
		return 0;
	if (peer->connecting || peer->ends)
		return peer->deadline_ms;
	return peer->ping_ms;
}

void peer_on_clock(struct peer *peer, int64_t now_ms)
{
	static const struct message ping = { .type = MESSAGE_PING };

	if (peer->lost)
		return;
	if (peer->deadline_ms && now_ms >= peer->deadline_ms)
		lose(peer, peer->connecting ? "its host does not answer" : "closed");
	if (peer->connecting || peer->ends || now_ms < peer->ping_ms)
		return;
	/* Bytes that wait to be acknowledged serve as well. */
	if (rd_connection_is_flushed(&peer->connection) &&
		rd_connection_is_proved(&peer->connection))
		peer_send(peer, &ping);
	peer->ping_ms = now_ms + PING_MS;
}
