#include "run/nodes/peer.h"

#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "net/socket.h"
#include "rondo.h"
#include "run/base/memory.h"
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
	if (peer->wire.fd >= 0)
		setsockopt(peer->wire.fd, IPPROTO_TCP, TCP_USER_TIMEOUT, &ms, sizeof(ms));
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
	case MESSAGE_END:
		set_silence(peer, SILENCE_MS);
		break;
	default:
		break;
	}
}

static void init(struct peer *peer, int fd, bool accepts, const struct secret *secret)
{
	int on = 1;

	*peer = (struct peer){
		.wire = RD_WIRE(fd), .ping_ms = rd_clock_ms() + PING_MS, .poll = -1
	};
	peer->in = memory_realloc(NULL, MESSAGE_MAX);
	if (fd < 0)
		return;
	set_silence(peer, SILENCE_MS);
	setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
	if (secret->has_psk && rd_wire_secure(&peer->wire, accepts, secret->psk))
		lose(peer, rondo_last_error());
}

void peer_connect(struct peer *peer, const struct sockaddr *address, socklen_t size,
	const struct secret *secret)
{
	init(peer, socket(address->sa_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0), false,
		secret);
	endpoint_text(address, peer->address);
	peer->connecting = true;
	peer->deadline_ms = rd_clock_ms() + CONNECT_MS;
	if (peer->wire.fd < 0 ||
		(connect(peer->wire.fd, address, size) < 0 && errno != EINPROGRESS)) {
		peer->barred = rd_is_permanent(errno);
		lose(peer, strerror(errno));
	}
}

void peer_accept(struct peer *peer, int fd, const struct secret *secret)
{
	struct sockaddr_storage there;
	socklen_t size = sizeof(there);

	init(peer, fd, true, secret);
	if (getpeername(fd, (struct sockaddr *)&there, &size) == 0)
		endpoint_text((struct sockaddr *)&there, peer->address);
	else
		lose(peer, strerror(errno));
}

bool peer_is_promising(const struct peer *peer)
{
	return rd_wire_is_promising(&peer->wire);
}

void peer_close(struct peer *peer)
{
	rd_wire_close(&peer->wire);
	lose(peer, "closed");
	free(peer->in);
	free(peer->out);
	peer->in = peer->out = NULL;
	peer->in_size = peer->out_size = peer->out_sent = peer->out_capacity = 0;
}

/* ---- Sending -------------------------------------------------------------------------------- */

static bool may_send(const struct peer *peer)
{
	return !peer->wire.tls || peer->wire.keyed;
}

/* False: the other side has yet to prove that it has the secret, or is lost. */
static bool is_proved(struct peer *peer)
{
	int result = peer->lost || peer->connecting ? 0 : rd_wire_prove(&peer->wire);

	if (result >= 0)
		return result > 0;
	peer->stranger = errno == EPROTO;
	lose(peer, peer->stranger ? "a rondo-run that has another secret (RONDO_SECRET_FILE)"
				  : "it hung up: it may have no secret (RONDO_SECRET_FILE)");
	return false;
}

static void flush(struct peer *peer)
{
	if (!is_proved(peer))
		return;
	while (!peer->lost && peer->out_sent < peer->out_size) {
		struct iovec rest = { peer->out + peer->out_sent, peer->out_size - peer->out_sent };
		ssize_t sent = rd_wire_send(&peer->wire, &rest, 1);

		if (sent < 0 && errno == EINTR)
			continue;
		if (sent < 0 && errno != EAGAIN)
			lose(peer, strerror(errno));
		if (sent < 0)
			return;
		peer->out_sent += (size_t)sent;
	}
	if (peer->out_sent < peer->out_size || peer->lost)
		return;
	peer->out_sent = peer->out_size = 0;
	if (peer->ends)
		shutdown(peer->wire.fd, SHUT_WR);
}

static bool make_room(struct peer *peer, size_t size)
{
	size_t capacity = 2 * (peer->out_size + size);
	unsigned char *grown;

	if (peer->out_size + size > OUT_MAX)
		return false;
	if (peer->out_size + size <= peer->out_capacity)
		return true;
	grown = realloc(peer->out, capacity);
	if (!grown)
		return false;
	peer->out = grown;
	peer->out_capacity = capacity;
	return true;
}

void peer_send(struct peer *peer, const struct message *message)
{
	unsigned char data[MESSAGE_MAX];
	size_t size;

	if (peer->lost || peer->ends)
		return;
	size = message_encode(message, data);
	if (!make_room(peer, size)) {
		lose(peer, "it does not read its messages");
		return;
	}
	memcpy(peer->out + peer->out_size, data, size);
	peer->out_size += size;
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
	return peer->heard || peer->wire.keyed
		       ? "its rondo-run has ended"
		       : "its rondo-run has ended, or has a secret (RONDO_SECRET_FILE)";
}

/* Returns whether bytes have come. */
static bool receive(struct peer *peer)
{
	struct iovec room = { peer->in + peer->in_size, MESSAGE_MAX - peer->in_size };
	ssize_t size;

	if (room.iov_len == 0 || !is_proved(peer))
		return false;
	size = rd_wire_recv(&peer->wire, &room, 1);
	peer->heard |= size > 0;
	if (size > 0)
		peer->in_size += (size_t)size;
	else if (size == 0)
		lose(peer, hung_up(peer));
	else if (errno == ETIMEDOUT || errno == EHOSTUNREACH || errno == ENETUNREACH)
		lose(peer, "its host does not answer");
	else if (errno == ECONNRESET)
		lose(peer, hung_up(peer));
	else if (errno != EAGAIN && errno != EINTR)
		lose(peer, strerror(errno));
	return size > 0;
}

/* 1: the next message is taken from `in`; 0: it is not whole; -1: the peer is lost. */
static int take(struct peer *peer, struct message *message)
{
	long size = peer->in_size > 0 ? message_decode(message, peer->in, peer->in_size) : 0;

	if (size < 0) {
		peer->in_size = 0;
		peer->stranger = true;
		lose(peer, "something else than this version of rondo-run");
	}
	if (size <= 0)
		return (int)size;
	peer->in_size -= (size_t)size;
	memmove(peer->in, peer->in + size, peer->in_size);
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
	int error = 0;
	socklen_t size = sizeof(error);

	if (getsockopt(peer->wire.fd, SOL_SOCKET, SO_ERROR, &error, &size) < 0)
		error = errno;
	peer->connecting = false;
	peer->deadline_ms = 0;
	if (error)
		lose(peer, strerror(error));
	flush(peer);
}

/* ---- The loop ------------------------------------------------------------------------------- */

void peer_add_polls(struct peer *peer, struct polls *polls)
{
	bool full = peer->in_size == MESSAGE_MAX;
	/* Before the proof, the socket has room, and nothing may be sent. */
	bool sends = peer->connecting || (may_send(peer) && peer->out_sent < peer->out_size);

	peer->poll = polls_add(polls, peer->lost ? -1 : peer->wire.fd,
		(short)((full ? 0 : POLLIN) | (sends ? POLLOUT : 0)));
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
	if (peer->out_size == 0 && may_send(peer))
		peer_send(peer, &ping);
	peer->ping_ms = now_ms + PING_MS;
}
