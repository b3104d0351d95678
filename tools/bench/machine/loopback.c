#include "loopback.h"

#include <errno.h>
#include <math.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdint.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <unistd.h>

#include "base/port.h"
#include "base/clock.h"
#include "bench/memory.h"
#include "pair.h"

#define CHUNK (256 << 10)
#define TIMEOUT_S 5

struct connection {
	int fds[2];
	bool both_ways, polling;
	size_t operand; /* an operand: bytes sent, and received, repeatedly */
	char *out[2], *in[2]; /* of each side */
	double seconds;
	int rounds;
	double results[2]; /* of each side; NAN until it succeeds */
};

static void set_options(int fd)
{
	int yes = 1;
	struct timeval timeout = { .tv_sec = TIMEOUT_S };

	setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &yes, sizeof(yes));
	setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &timeout, sizeof(timeout));
	setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &timeout, sizeof(timeout));
}

static bool connect_pair(struct connection *connection)
{
	struct sockaddr_storage address = { 0 };
	struct sockaddr *generic = (struct sockaddr *)&address;
	socklen_t length = sizeof(address);
	int port, listener = rd_listen_on_loopback(&port);

	connection->fds[0] = connection->fds[1] = -1;
	if (listener >= 0 && getsockname(listener, generic, &length) == 0)
		connection->fds[0] = socket(generic->sa_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
	if (connection->fds[0] >= 0 && connect(connection->fds[0], generic, length) == 0)
		connection->fds[1] = accept4(listener, NULL, NULL, SOCK_CLOEXEC);
	if (listener >= 0)
		close(listener);
	for (int i = 0; i < 2 && connection->fds[1] >= 0; i++)
		set_options(connection->fds[i]);
	return connection->fds[1] >= 0;
}

static void disconnect(struct connection *connection)
{
	for (int i = 0; i < 2; i++) {
		if (connection->fds[i] >= 0)
			close(connection->fds[i]);
	}
}

static bool nothing_now(ssize_t moved)
{
	return moved < 0 && (errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR);
}

/* The bytes of the operand from here on for one call. */
static size_t stretch(const struct connection *connection, size_t at)
{
	size_t left = connection->operand - at;

	return left < CHUNK ? left : CHUNK;
}

/* Sends and receives in turn, until the time is up; returns the bytes that arrived. */
static void stream_side(int side, void *argument)
{
	struct connection *connection = argument;
	int fd = connection->fds[side];
	bool sends = side == 0 || connection->both_ways,
	     receives = side == 1 || connection->both_ways;
	size_t operand = connection->operand, sent = 0, got = 0;
	char *out = connection->out[side], *in = connection->in[side];
	int64_t start = rd_clock_ns(), now = start,
		end = start + (int64_t)(connection->seconds * 1e9);
	double arrived = 0;

	for (; out && in && now < end; now = rd_clock_ns()) {
		ssize_t moved = sends ? send(fd, out + sent, stretch(connection, sent),
						MSG_DONTWAIT | MSG_NOSIGNAL)
				      : 0;
		if (moved < 0 && !nothing_now(moved))
			break;
		sent = moved > 0 ? (sent + (size_t)moved) % operand : sent;
		moved = receives ? recv(fd, in + got, stretch(connection, got), MSG_DONTWAIT) : 0;
		if (moved < 0 && !nothing_now(moved))
			break;
		got = moved > 0 ? (got + (size_t)moved) % operand : got;
		arrived += moved > 0 ? (double)moved : 0;
	}
	if (now >= end)
		connection->results[side] = arrived / (double)(now - start);
}

static bool receive_whole(int fd, char *into, size_t size, bool polling)
{
	int64_t deadline = polling ? rd_clock_ns() + TIMEOUT_S * (int64_t)1000000000 : 0;
	unsigned spins = 0;

	for (size_t have = 0; have < size;) {
		ssize_t moved = recv(fd, into + have, size - have, polling ? MSG_DONTWAIT : 0);
		if (moved > 0)
			have += (size_t)moved;
		else if (!polling || !nothing_now(moved))
			return false;
		else if ((++spins & 0xfff) == 0 && rd_clock_ns() > deadline)
			return false;
	}
	return true;
}

static void bounce_side(int side, void *argument)
{
	struct connection *connection = argument;
	int fd = connection->fds[side], warm = connection->rounds / 10;
	char ball[8] = "";
	int64_t start = rd_clock_ns();

	for (int i = 0; i < connection->rounds + warm; i++) {
		if (i == warm)
			start = rd_clock_ns();
		if (side == 0 && send(fd, ball, sizeof(ball), MSG_NOSIGNAL) != sizeof(ball))
			return;
		if (!receive_whole(fd, ball, sizeof(ball), connection->polling))
			return;
		if (side == 1 && send(fd, ball, sizeof(ball), MSG_NOSIGNAL) != sizeof(ball))
			return;
	}
	connection->results[side] = (double)(rd_clock_ns() - start) / connection->rounds / 1e3;
}

double bench_loopback_stream(bool both_ways, size_t operand, double seconds)
{
	struct connection connection = { .both_ways = both_ways,
		.operand = operand,
		.seconds = seconds,
		.results = { NAN, NAN } };

	/* Fills the operands before both sides start, because that takes a while. */
	for (int side = 0; side < 2; side++) {
		connection.out[side] = bench_memory_create(operand);
		connection.in[side] = bench_memory_create(operand);
	}

	bool ran = connect_pair(&connection) && bench_pair_run(stream_side, &connection);

	disconnect(&connection);
	for (int side = 0; side < 2; side++) {
		bench_memory_destroy(connection.out[side]);
		bench_memory_destroy(connection.in[side]);
	}
	if (!ran || isnan(connection.results[0]) || isnan(connection.results[1]))
		return NAN;
	return both_ways ? fmin(connection.results[0], connection.results[1])
			 : connection.results[1];
}

double bench_loopback_round_trip_us(bool polling, int rounds)
{
	struct connection connection = {
		.polling = polling, .rounds = rounds, .results = { NAN, NAN }
	};
	bool ran = connect_pair(&connection) && bench_pair_run(bounce_side, &connection);

	disconnect(&connection);
	return ran ? connection.results[0] : NAN;
}
