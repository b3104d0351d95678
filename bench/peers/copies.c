/*
 * The floor of long messages in plain memory, between two ranks: pieces through slots that both
 * map, or with PEERS_SINGLE_COPY one read of the sender's memory by the kernel. It is no library:
 * an error ends it. It forks its two ranks.
 */
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/uio.h>
#include <unistd.h>

#include "ranks.h"
#include "two.h"

#define RANKS 2
#define PIECE (128 << 10) /* bytes */

/* A rank writes its slots in turns, and the other may still read the one before. */
struct slot {
	_Alignas(128) _Atomic uint64_t number; /* of the piece */
	_Alignas(128) unsigned char bytes[PIECE];
};

static struct slot (*slots)[2]; /* of each rank */
static pid_t pids[RANKS];
static int rank;
static uint64_t pieces;
static bool single_copy;

/* Sends a piece, and returns the other's. Receiving it proves that the one before was read. */
static const void *exchange_piece(const void *mine, size_t sent)
{
	size_t turn = ++pieces % 2;
	struct slot *own = &slots[rank][turn], *other = &slots[!rank][turn];
	struct peers_wait wait = { 0 };

	memcpy(own->bytes, mine, sent);
	atomic_store_explicit(&own->number, pieces, memory_order_release);
	while (atomic_load_explicit(&other->number, memory_order_acquire) != pieces) {
		if (peers_wait_is_over(&wait)) {
			fprintf(stderr, "copies: rank %d waited in vain for the other\n", rank);
			_exit(1);
		}
	}
	return other->bytes;
}

static void barrier(void)
{
	exchange_piece("", 0);
}

static void greatest(double *value)
{
	double theirs;

	memcpy(&theirs, exchange_piece(value, sizeof(*value)), sizeof(theirs));
	if (theirs > *value)
		*value = theirs;
}

static size_t piece_of(size_t size, size_t at)
{
	size_t left = size > at ? size - at : 0;

	return left < PIECE ? left : PIECE;
}

static void exchange_by_slots(const char *mine, size_t sent, char *theirs, size_t received)
{
	for (size_t at = 0; at < sent || at < received; at += PIECE)
		memcpy(theirs + at, exchange_piece(mine + at, piece_of(sent, at)),
			piece_of(received, at));
}

static void read_other(char *into, const char *from, size_t size)
{
	struct iovec here = { into, size }, there = { (void *)from, size };

	while (here.iov_len > 0) {
		ssize_t got = process_vm_readv(pids[!rank], &here, 1, &there, 1, 0);

		if (got <= 0) {
			perror("copies: process_vm_readv");
			_exit(1);
		}
		here.iov_base = (char *)here.iov_base + got;
		there.iov_base = (char *)there.iov_base + got;
		here.iov_len = there.iov_len -= (size_t)got;
	}
}

static void exchange(const char *mine, size_t sent, char *theirs, size_t received)
{
	const char *from;

	if (!single_copy) {
		exchange_by_slots(mine, sent, theirs, received);
		return;
	}
	memcpy(&from, exchange_piece(&mine, sizeof(mine)), sizeof(from));
	read_other(theirs, from, received);
	barrier();
}

static int has(enum peers_collective collective)
{
	return collective == PEERS_ALL_GATHER || collective == PEERS_BROADCAST;
}

static void run(enum peers_collective collective, const float *send, float *recv, size_t count)
{
	size_t size = count * sizeof(float);

	if (collective == PEERS_ALL_GATHER) {
		exchange((const char *)send, size, (char *)(recv + !rank * count), size);
		memcpy(recv + rank * count, send, size);
	} else {
		exchange((char *)recv, rank ? 0 : size, (char *)recv, rank ? size : 0);
	}
}

static struct peers_library live(int which, void *memory)
{
	rank = which;
	slots = memory;
	/* Each may read the other's memory where the kernel asks for consent. */
	prctl(PR_SET_PTRACER, PR_SET_PTRACER_ANY);
	pids[rank] = getpid();
	memcpy(&pids[!rank], exchange_piece(&pids[rank], sizeof(*pids)), sizeof(*pids));
	return (struct peers_library){ .rank = rank,
		.size = RANKS,
		.barrier = barrier,
		.greatest = greatest,
		.has = has,
		.run = run };
}

int main(int argc, char **argv)
{
	single_copy = getenv("PEERS_SINGLE_COPY") != NULL;
	return peers_two_run("copies", RANKS * sizeof(*slots), live, argc, argv);
}
