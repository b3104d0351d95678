/*
 * The floor of a small call between two ranks: each writes its cache lines, the first with a flag,
 * and waits for the other's. It is no library: it knows no errors, and no ranks that die. It forks
 * its two ranks.
 */
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "measure.h"

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

	memcpy(own->bytes, mine, sent);
	atomic_store_explicit(&own->call, calls, memory_order_release);
	while (atomic_load_explicit(&other->call, memory_order_acquire) != calls)
		;
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

static int live(int argc, char **argv)
{
	struct peers_library library = { .rank = rank,
		.size = RANKS,
		.most = CARRIED,
		.barrier = barrier,
		.greatest = greatest,
		.run = run };
	int status = peers_measure(&library, argc, argv);

	fflush(stdout);
	return status;
}

int main(int argc, char **argv)
{
	int status = 0, failed = 0;

	lines = mmap(NULL, RANKS * sizeof(*lines), PROT_READ | PROT_WRITE,
		MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	if (lines == MAP_FAILED)
		return 1;
	for (rank = 0; rank < RANKS; rank++) {
		if (fork() == 0)
			_exit(live(argc, argv));
	}
	while (wait(&status) > 0)
		failed |= status != 0;
	return failed;
}
