/*
 * The floor of calls over tcp: the same steps in a plain loop over sockets that are tuned as
 * Rondo's. It is no library: its messages have no header, and an error ends it. It forks its
 * PEERS_RANKS ranks. It has the all-reduce of two ranks, and broadcasts.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <netinet/tcp.h>
#include <sched.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/clock.h"
#include "measure.h"
#include "ranks.h"

#define RANKS_MOST 8
/* Bytes that a rank receives and sums at once. */
#define STEP ((size_t)64 << 10)
/* Several messages of up to this size are read by one call. */
#define AHEAD ((size_t)4 << 10)

struct peer {
	int fd;
	size_t start, end; /* bytes that have been read, and not taken */
	char ahead[2 * AHEAD];
};

static struct peer peers[RANKS_MOST];
static int rank, ranks;
static bool yields; /* there are more ranks than processors */
static bool in_halves; /* how an all-reduce runs */

static void must(bool done, const char *what)
{
	if (done)
		return;
	fprintf(stderr, "sockets: rank %d: %s: %s\n", rank, what, strerror(errno));
	_exit(1);
}

/* As must(); names the peer. */
static void must_reach(const struct peer *peer, bool done, const char *what)
{
	if (done)
		return;
	fprintf(stderr, "sockets: rank %d: %s rank %d: %s\n", rank, what, (int)(peer - peers),
		strerror(errno));
	_exit(1);
}

/* ---- Bytes --------------------------------------------------------------------------------- */

/* Bytes that the kernel took. */
static size_t send_some(struct peer *peer, const void *from, size_t size)
{
	ssize_t done = size ? send(peer->fd, from, size, MSG_DONTWAIT | MSG_NOSIGNAL) : 0;

	must_reach(peer, done >= 0 || errno == EAGAIN, "send to");
	return done > 0 ? (size_t)done : 0;
}

static size_t read_some(struct peer *peer, void *into, size_t size)
{
	ssize_t done = recv(peer->fd, into, size, MSG_DONTWAIT);

	if (done == 0)
		errno = ECONNRESET; /* its end, and no message is whole */
	must_reach(peer, done > 0 || (done < 0 && errno == EAGAIN), "receive from");
	return done > 0 ? (size_t)done : 0;
}

/* Bytes of a message of which `size` bytes are left. */
static size_t receive_some(struct peer *peer, void *into, size_t size)
{
	size_t there;

	if (size == 0)
		return 0;
	if (peer->start == peer->end && size > AHEAD)
		return read_some(peer, into, size);
	if (peer->start == peer->end) {
		peer->start = 0;
		peer->end = read_some(peer, peer->ahead, sizeof(peer->ahead));
	}
	there = peer->end - peer->start;
	if (there > size)
		there = size;
	memcpy(into, peer->ahead + peer->start, there);
	peer->start += there;
	return there;
}

static void idle(struct peers_wait *wait, const struct peer *peer)
{
	if (yields)
		sched_yield();
	if (!peers_wait_is_over(wait))
		return;
	errno = ETIMEDOUT;
	must_reach(peer, false, "wait for");
}

static void send_all(struct peer *peer, const void *from, size_t size)
{
	struct peers_wait wait = { 0 };

	for (size_t sent = 0, more; sent < size; sent += more)
		if ((more = send_some(peer, (const char *)from + sent, size - sent)) == 0)
			idle(&wait, peer);
}

static void receive_all(struct peer *peer, void *into, size_t size)
{
	struct peers_wait wait = { 0 };

	for (size_t received = 0, more; received < size; received += more)
		if ((more = receive_some(peer, (char *)into + received, size - received)) == 0)
			idle(&wait, peer);
}

/* ---- Calls --------------------------------------------------------------------------------- */

/* Adds what comes in steps; a float may come in parts. Returns the floats that it added. */
static size_t receive_sum(struct peer *peer, const float *own, float *into, size_t count)
{
	static float scratch[STEP / sizeof(float)];
	static size_t odd;
	size_t size = count * sizeof(float) < STEP ? count * sizeof(float) : STEP, come, whole;

	come = odd + receive_some(peer, (char *)scratch + odd, size - odd);
	whole = come / sizeof(float);
	for (size_t i = 0; i < whole; i++)
		into[i] = own[i] + scratch[i];
	odd = come % sizeof(float);
	memcpy(scratch, scratch + whole, odd);
	return whole;
}

/* The floats that a rank sums. */
struct part {
	size_t at, count;
};

static struct part part_of(int whose, size_t count)
{
	if (!in_halves)
		return (struct part){ 0, count };
	return whose ? (struct part){ count / 2, count - count / 2 }
		     : (struct part){ 0, count / 2 };
}

/*
 * Two ranks either both send all of their input. Or each sends the other's half of its input, and
 * then the sums of its own half, as soon as there are some.
 */
static void all_reduce(const float *send, float *recv, size_t count)
{
	struct part mine = part_of(rank, count), theirs = part_of(!rank, count);
	const char *input = (const char *)(send + theirs.at);
	char *sums = (char *)(recv + mine.at), *results = (char *)(recv + theirs.at);
	size_t first = theirs.count * sizeof(float); /* bytes of the input that leave */
	size_t end = first + (in_halves ? mine.count * sizeof(float) : 0);
	size_t results_size = in_halves ? first : 0, sent = 0, received = 0, summed = 0;
	struct peer *peer = &peers[!rank];
	struct peers_wait wait = { 0 };

	while (sent < end || summed < mine.count || received < results_size) {
		size_t before = sent + received + summed;

		if (sent < first)
			sent += send_some(peer, input + sent, first - sent);
		else if (sent < end)
			sent += send_some(peer, sums + (sent - first),
				summed * sizeof(float) - (sent - first));
		if (summed < mine.count)
			summed += receive_sum(peer, send + mine.at + summed,
				recv + mine.at + summed, mine.count - summed);
		else
			received += receive_some(peer, results + received, results_size - received);
		if (sent + received + summed == before)
			idle(&wait, peer);
	}
}

/* A binomial tree from rank 0, to the farthest first. */
static void broadcast(float *data, size_t size)
{
	int span = rank ? rank & -rank : 1;

	while (!rank && span < ranks)
		span *= 2;
	if (rank)
		receive_all(&peers[rank - span], data, size);
	for (int far = span / 2; far; far /= 2)
		if (rank + far < ranks)
			send_all(&peers[rank + far], data, size);
}

static void greatest(double *value)
{
	double other;

	for (int i = 1; i < ranks && rank == 0; i++) {
		receive_all(&peers[i], &other, sizeof(other));
		*value = other > *value ? other : *value;
	}
	if (rank)
		send_all(&peers[0], value, sizeof(*value));
	broadcast((float *)(void *)value, sizeof(*value));
}

static void barrier(void)
{
	double none = 0;

	greatest(&none);
}

static void run(enum peers_collective collective, const float *send, float *recv, size_t count)
{
	if (collective == PEERS_BROADCAST)
		broadcast(recv, count * sizeof(float));
	else
		all_reduce(send, recv, count);
}

static int has(enum peers_collective collective)
{
	return collective == PEERS_BROADCAST || (collective == PEERS_ALL_REDUCE && ranks == 2);
}

/* The slower rank's time of a few calls. */
static double try_halves(bool halves, const float *send, float *recv, size_t count)
{
	int64_t start;
	double elapsed;

	in_halves = halves;
	all_reduce(send, recv, count);
	barrier();
	start = rd_clock_ns();
	for (int i = 0; i < 20; i++)
		all_reduce(send, recv, count);
	elapsed = (double)(rd_clock_ns() - start);
	greatest(&elapsed);
	return elapsed;
}

static void prepare(enum peers_collective collective, float *send, float *recv, size_t count)
{
	if (collective == PEERS_ALL_REDUCE)
		in_halves =
			try_halves(true, send, recv, count) < try_halves(false, send, recv, count);
}

/* ---- Ranks --------------------------------------------------------------------------------- */

static int tuned(int fd)
{
	int on = 1;

	must(fd >= 0, "socket");
	setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
	/* In place of BBR, which paces on the loopback, too. */
	setsockopt(fd, IPPROTO_TCP, TCP_CONGESTION, "reno", 4);
	return fd;
}

/* All connections are made before the ranks are forked. */
static void connect_all(int fds[RANKS_MOST][RANKS_MOST])
{
	struct sockaddr_in address = { .sin_family = AF_INET,
		.sin_addr = { htonl(INADDR_LOOPBACK) } };
	socklen_t size = sizeof(address);
	int listener = socket(AF_INET, SOCK_STREAM, 0);

	must(bind(listener, (struct sockaddr *)&address, size) == 0 && listen(listener, 1) == 0 &&
			getsockname(listener, (struct sockaddr *)&address, &size) == 0,
		"listen");
	for (int i = 0; i < ranks; i++) {
		for (int k = 0; k < i; k++) {
			fds[i][k] = tuned(socket(AF_INET, SOCK_STREAM, 0));
			must(connect(fds[i][k], (struct sockaddr *)&address, size) == 0, "connect");
			fds[k][i] = tuned(accept(listener, NULL, NULL));
		}
	}
	close(listener);
}

struct start {
	int argc;
	char **argv;
	int fds[RANKS_MOST][RANKS_MOST];
};

/* All but those of `mine` (-1: all). While any process has a socket open, its peer gets no end. */
static void close_others(const struct start *start, int mine)
{
	for (int i = 0; i < ranks; i++)
		for (int k = 0; k < ranks && i != mine; k++)
			if (k != i)
				close(start->fds[i][k]);
}

static void close_all(void *argument)
{
	close_others(argument, -1);
}

static int live(int which, void *argument)
{
	struct start *start = argument;

	rank = which;
	close_others(start, rank);
	for (int i = 0; i < ranks; i++)
		peers[i] = (struct peer){ .fd = start->fds[rank][i] };

	struct peers_library library = { .rank = rank,
		.size = ranks,
		.barrier = barrier,
		.greatest = greatest,
		.has = has,
		.run = run,
		.prepare = prepare };
	int status = peers_measure(&library, start->argc, start->argv);

	fflush(stdout);
	return status;
}

int main(int argc, char **argv)
{
	const char *number = getenv("PEERS_RANKS");
	struct start start = { .argc = argc, .argv = argv };

	ranks = number ? atoi(number) : 0;
	if (ranks < 2 || ranks > RANKS_MOST) {
		fprintf(stderr, "set PEERS_RANKS to 2 to %d\n", RANKS_MOST);
		return 2;
	}
	yields = ranks > sysconf(_SC_NPROCESSORS_ONLN);
	connect_all(start.fds);
	return peers_ranks_run("sockets", ranks, live, close_all, &start);
}
