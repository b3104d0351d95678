#include "run/check/pairs.h"

#include <stdbool.h>
#include <stdlib.h>
#include <time.h>

/* Bytes: one to open the pair's windows, and one to measure. */
#define WARM_UP ((size_t)1 << 20)
#define STREAM ((size_t)32 << 20)
/* Round trips; the quickest counts. */
#define PINGS 8

static double seconds(clockid_t clock)
{
	struct timespec now;

	clock_gettime(clock, &now);
	return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

/* One side of a stream of `size` bytes, and its answer. */
static int stream(rondo_comm *comm, char *bytes, size_t size, int peer, bool sends)
{
	int err = sends ? rondo_send(comm, bytes, size, RONDO_U8, peer, NULL)
			: rondo_recv(comm, bytes, size, RONDO_U8, peer, NULL);

	if (err)
		return err;
	return sends ? rondo_recv(comm, bytes, 1, RONDO_U8, peer, NULL)
		     : rondo_send(comm, bytes, 1, RONDO_U8, peer, NULL);
}

static int measure(rondo_comm *comm, char *bytes, int peer, double *gbps)
{
	bool first = rondo_comm_rank(comm) < peer;
	double slowest = 0;
	int err = 0;

	for (int way = 0; way < 2 && !err; way++) {
		double start, took;

		err = stream(comm, bytes, WARM_UP, peer, first == (way == 0));
		start = seconds(CLOCK_MONOTONIC);
		if (!err)
			err = stream(comm, bytes, STREAM, peer, first == (way == 0));
		took = seconds(CLOCK_MONOTONIC) - start;
		slowest = took > slowest ? took : slowest;
	}
	if (first && !err)
		*gbps = (double)STREAM / 1e9 / slowest;
	return err;
}

/* The peer in a round of a tournament: each pair meets once. The last place stays. */
static int partner(int rank, int round, int places)
{
	int last = places - 1;

	if (rank == last)
		return round * (places / 2) % last;
	if (2 * rank % last == round)
		return last;
	return (round - rank + last) % last;
}

int check_bandwidths(rondo_comm *comm, double *gbps)
{
	int size = rondo_comm_size(comm), places = size + size % 2, err = 0;
	char *bytes = calloc(1, STREAM);

	if (!bytes)
		return RONDO_MEMORY;
	for (int round = 0; round < places - 1 && !err; round++) {
		int peer = partner(rondo_comm_rank(comm), round, places);

		if (peer < size)
			err = measure(comm, bytes, peer, &gbps[peer]);
	}
	free(bytes);
	return err;
}

static int ping(rondo_comm *comm, int peer, double *skew)
{
	double best = 1e9;

	for (int i = 0; i < PINGS; i++) {
		double start = seconds(CLOCK_REALTIME), other, trip;
		int err = rondo_send(comm, &start, 1, RONDO_F64, peer, NULL);

		if (!err)
			err = rondo_recv(comm, &other, 1, RONDO_F64, peer, NULL);
		if (err)
			return err;
		trip = seconds(CLOCK_REALTIME) - start;
		if (trip < best)
			*skew = other - start - trip / 2;
		best = trip < best ? trip : best;
	}
	return 0;
}

static int answer(rondo_comm *comm)
{
	int err = 0;

	for (int i = 0; i < PINGS && !err; i++) {
		double now;

		err = rondo_recv(comm, &now, 1, RONDO_F64, 0, NULL);
		now = seconds(CLOCK_REALTIME);
		if (!err)
			err = rondo_send(comm, &now, 1, RONDO_F64, 0, NULL);
	}
	return err;
}

int check_clocks(rondo_comm *comm, double *skew)
{
	int err = 0;

	if (rondo_comm_rank(comm) != 0)
		return answer(comm);
	for (int peer = 1; peer < rondo_comm_size(comm) && !err; peer++)
		err = ping(comm, peer, &skew[peer]);
	return err;
}
