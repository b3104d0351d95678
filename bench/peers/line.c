/*
 * The floor of a small call between two ranks: each writes its cache lines, the first with a flag,
 * and waits for the other's. It is no library: an error ends it. It forks its two ranks.
 */
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "ranks.h"
#include "two.h"

#define RANKS 2
#define CARRIED (16 << 10) /* bytes */

/* A rank writes its lines in turns, and the other may still read those before. They begin at a pair
   of lines, for processors fetch pairs. */
struct line {
	_Alignas(128) _Atomic uint64_t call;
	unsigned char bytes[CARRIED];
};

static struct line (*lines)[2]; /* of each rank */
static int rank;
static uint64_t calls;

/* Sends `sent` bytes and receives `received`. */
static void exchange(const void *mine, size_t sent, void *theirs, size_t received)
{
	size_t turn = ++calls % 2;
	struct line *own = &lines[rank][turn], *other = &lines[!rank][turn];
	struct peers_wait wait = { 0 };

	memcpy(own->bytes, mine, sent);
	atomic_store_explicit(&own->call, calls, memory_order_release);
	while (atomic_load_explicit(&other->call, memory_order_acquire) != calls) {
		if (peers_wait_is_over(&wait)) {
			fprintf(stderr, "line: rank %d waited in vain for rank %d\n", rank, !rank);
			_exit(1);
		}
	}
	memcpy(theirs, other->bytes, received);
}

static void barrier(void)
{
	exchange(NULL, 0, NULL, 0);
}

static void greatest(double *value)
{
	double theirs;

	exchange(value, sizeof(*value), &theirs, sizeof(theirs));
	if (theirs > *value)
		*value = theirs;
}

static void run(enum peers_collective collective, const float *send, float *recv, size_t count)
{
	float theirs[CARRIED / sizeof(float)];
	size_t size = count * sizeof(float);

	switch (collective) {
	case PEERS_ALL_REDUCE:
		exchange(send, size, theirs, size);
		for (size_t i = 0; i < count; i++)
			recv[i] = send[i] + theirs[i];
		break;
	case PEERS_REDUCE_SCATTER:
		exchange(send + (size_t)!rank * count, size, theirs, size);
		for (size_t i = 0; i < count; i++)
			recv[i] = send[(size_t)rank * count + i] + theirs[i];
		break;
	case PEERS_ALL_GATHER:
		memcpy(recv + (size_t)rank * count, send, size);
		exchange(send, size, recv + (size_t)!rank * count, size);
		break;
	case PEERS_BROADCAST:
		exchange(recv, rank ? 0 : size, recv, rank ? size : 0);
		break;
	default:
		memcpy(recv + (size_t)rank * count, send + (size_t)rank * count, size);
		exchange(send + (size_t)!rank * count, size, recv + (size_t)!rank * count, size);
	}
}

static struct peers_library live(int which, void *memory)
{
	rank = which;
	lines = memory;
	return (struct peers_library){ .rank = rank,
		.size = RANKS,
		.most = CARRIED,
		.barrier = barrier,
		.greatest = greatest,
		.run = run };
}

int main(int argc, char **argv)
{
	return peers_two_run("line", RANKS * sizeof(*lines), live, argc, argv);
}
