/* Ranks with an endpoint of the tcp transport and a link each, all in the calling thread. */
#ifndef TCP_RANKS_H
#define TCP_RANKS_H

#include <criterion/criterion.h>
#include <sched.h>

#include "base/error.h"
#include "transports/contract/traffic.h"
#include "transports/transports.h"

#define COMM 0x1122334455667788u
#define PIECE 65536

/* Repeats `step` until the condition is true. Fails the test after fixture_wait_ms. */
#define AWAIT(condition, step) \
	do { \
		uint64_t deadline = now_ms() + fixture_wait_ms; \
		while (!(condition)) { \
			cr_assert(now_ms() < deadline, "waited in vain for " #condition); \
			step; \
			sched_yield(); \
		} \
	} while (0)

extern bool rank_checksums; /* RONDO_CHECKSUM of all ranks; false unless a test sets it */

struct rank {
	struct rd_settings settings;
	struct rd_local local;
	struct rd_endpoint *endpoint;
	struct rd_link *link;
	unsigned char card[RD_CARD_MAX];
	size_t card_size;
};

struct pair {
	struct rank zero, one;
};

/* Listens as rank `number` of eight. Returns the error of listen(); close the rank in any case. */
int rank_listen(struct rank *rank, int number, const char *address, const char *interface);
/* The same, on a host of this name, in a job with this secret. */
int rank_listen_secured(struct rank *rank, int number, const char *address, const char *host,
	const char *key, int encrypt);
/* The same, with a station for further comms. */
int rank_listen_shared(struct rank *rank, int number, struct rd_shared *shared);
/* Opens the link to a peer with this card. */
void rank_open(struct rank *rank, int peer, const void *card, size_t card_size);
void rank_advance(struct rank *rank);
/* Advances the rank 1000 times: enough to receive all bytes that were sent to it. */
void rank_advance_long(struct rank *rank);
void rank_close(struct rank *rank);
void pair_advance(struct pair *pair);
/* Two ranks with a connected link. Messages have at most piece_size bytes. */
void pair_open_for(struct pair *pair, const char *address, size_t piece_size);
/* The same, with messages of at most PIECE bytes. */
void pair_open(struct pair *pair, const char *address);
void pair_close(struct pair *pair);
/* Receives message `key` of `size` bytes, and checks it. The payload may land in `into`, if that is
   not NULL. Returns the payload's address. */
const void *rank_recv(struct rank *rank, unsigned key, size_t size, void *into, size_t into_size);
/* Whether recv() returns a message. */
bool rank_has_message(struct rank *rank);

#endif
