#include "sockets.h"

#include <errno.h>
#include <stdlib.h>

static struct sim_socket sockets[SOCKETS_MAX];
static int count;
static const struct socket_rules *rules;

/* ---- Life ----------------------------------------------------------------------------------- */

void sockets_begin(const struct socket_rules *world)
{
	rules = world;
	count = 0;
}

int sockets_count(void)
{
	return count;
}

struct sim_socket *sockets_at(int socket)
{
	return &sockets[socket];
}

static int add(int owner, int toward)
{
	struct sim_socket *made = &sockets[count];

	if (count == SOCKETS_MAX)
		abort();
	made->open = true;
	made->connected = false;
	made->owner = owner;
	made->toward = toward;
	made->peer = -1;
	made->error = 0;
	pipe_clear(&made->in);
	return count++;
}

static uint64_t arrival(void)
{
	return rules->arrival(rules->context);
}

static uint64_t cut_until(const struct sim_socket *socket)
{
	return socket->toward < 0 ? 0 : rules->cut(rules->context, socket->owner, socket->toward);
}

static void touch(int socket)
{
	rules->touch(rules->context, socket);
}

/* ---- Bytes ---------------------------------------------------------------------------------- */

static void put_bytes(int to, const unsigned char *bytes, size_t size)
{
	size_t first = draw_one_in(&sim.run, 4) ? 1 + draw(&sim.run, size) : size;
	struct pipe *in = &sockets[to].in;

	sim_event(SOCKET_PACKET, to, pipe_put(in, bytes, first, arrival()));
	if (first < size)
		sim_event(SOCKET_PACKET, to, pipe_put(in, bytes + first, size - first, arrival()));
}

static void put_end(int to, int error)
{
	struct pipe *in = &sockets[to].in;

	if (!in->ending)
		sim_event(SOCKET_PACKET, to, pipe_put_end(in, error, arrival()));
}

/* The other end, where it can read what comes now; -1. */
static int reader_of(int socket)
{
	int peer = sockets[socket].peer;

	return peer >= 0 && sockets[peer].open && !sockets[peer].in.ending ? peer : -1;
}

bool sockets_have_room(int socket)
{
	int reader = reader_of(socket);

	return reader < 0 || pipe_has_room(&sockets[reader].in);
}

void sockets_write(int socket, const void *bytes, size_t size)
{
	int reader = reader_of(socket);

	if (reader >= 0 && size > 0)
		put_bytes(reader, bytes, size);
}

void sockets_send(int socket, const struct rd_control_message *message)
{
	struct rd_control_message copy = *message;
	unsigned char frame[RD_FRAME_MAX];

	sockets_write(socket, frame, rd_control_encode(&copy, frame));
}

int sockets_take(int socket, struct rd_control_message *message)
{
	struct pipe *in = &sockets[socket].in;
	int took = in->arrived > 0 ? pipe_take(in, message) : 0;

	if (took < 0)
		return SOCKET_BAD;
	return took == 0 && in->ended ? SOCKET_ENDED : took;
}

bool sockets_have_ended(int socket)
{
	return !sockets[socket].open || sockets[socket].in.ended;
}

/* ---- Opening and closing -------------------------------------------------------------------- */

int sockets_dial(int owner, int toward)
{
	int socket = add(owner, toward);

	sockets[socket].in.last = arrival();
	sim_event(SOCKET_SYN, socket, sockets[socket].in.last);
	return socket;
}

void sockets_intrude(int toward, const void *bytes, size_t size, bool ends)
{
	int socket = add(toward, -1);

	sockets[socket].connected = true;
	if (size > 0)
		put_bytes(socket, bytes, size);
	if (ends)
		put_end(socket, 0);
	rules->accept(rules->context, socket);
}

void sockets_close(int socket, int error)
{
	if (sockets[socket].open && sockets[socket].peer >= 0 && sockets[sockets[socket].peer].open)
		put_end(sockets[socket].peer, error);
	sockets[socket].open = false;
}

static void break_end(int socket, int error)
{
	struct sim_socket *end = &sockets[socket];

	if (!end->open || (end->in.ended && end->in.arrived == 0))
		return;
	if (!end->connected)
		end->error = error;
	pipe_break(&end->in, error);
	touch(socket);
}

void sockets_break(int socket, int error)
{
	if (sockets[socket].peer >= 0)
		break_end(sockets[socket].peer, error);
	break_end(socket, error);
}

/* ---- Events --------------------------------------------------------------------------------- */

static void accept_attempt(int socket)
{
	int far = add(sockets[socket].toward, sockets[socket].owner);

	sockets[far].connected = true;
	sockets[far].peer = socket;
	sockets[socket].peer = far;
	rules->accept(rules->context, far);
}

static void put_left(int socket)
{
	struct rd_control_message left = { .kind = RD_CONTROL_LEFT };
	unsigned char frame[RD_FRAME_MAX];

	put_bytes(socket, frame, rd_control_encode(&left, frame));
	put_end(socket, 0);
}

static void take_attempt(int socket)
{
	struct sim_socket *near = &sockets[socket];
	enum socket_answer answer = rules->answer(rules->context, socket);

	near->in.last = arrival();
	sim_event(answer == SOCKET_REFUSES ? SOCKET_REFUSED : SOCKET_CONNECTED, socket,
		near->in.last);
	if (answer == SOCKET_ACCEPTS)
		accept_attempt(socket);
	if (answer == SOCKET_LEAVES)
		put_left(socket);
}

static void take_answer(int socket, bool connected)
{
	struct sim_socket *near = &sockets[socket];

	if (near->connected || near->error)
		return;
	near->connected = connected;
	near->error = connected ? 0 : ECONNREFUSED;
	touch(socket);
}

/* Only the end whose kernel waits for the other one breaks. */
static void take_silence(int socket)
{
	const struct sim_socket *end = &sockets[socket];

	if (end->peer >= 0 && rules->silent(rules->context, end->owner, end->toward))
		break_end(socket, ETIMEDOUT);
}

void sockets_take_event(enum socket_event kind, int socket)
{
	uint64_t until_ns;

	if (!sockets[socket].open)
		return;
	if (kind == SOCKET_SILENCE) {
		take_silence(socket);
		return;
	}
	/* TCP sends it again until the network is whole. */
	until_ns = cut_until(&sockets[socket]);
	if (until_ns) {
		sim_event((int)kind, socket, until_ns);
		return;
	}
	if (kind == SOCKET_SYN) {
		take_attempt(socket);
	} else if (kind == SOCKET_PACKET) {
		pipe_arrive(&sockets[socket].in);
		touch(socket);
	} else {
		take_answer(socket, kind == SOCKET_CONNECTED);
	}
}
