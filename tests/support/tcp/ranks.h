/*
 * Ranks that speak tcp, in one thread: an endpoint and its link for each.
 */
#ifndef TCP_RANKS_H
#define TCP_RANKS_H

#include <criterion/criterion.h>
#include <sched.h>

#include "base/error.h"
#include "transports/contract/traffic.h"
#include "transports/transports.h"

#define COMM 0x1122334455667788u
#define PIECE 65536

/* Asserts that the condition comes true in time, while `step` is done again and again. */
#define AWAIT(condition, step) \
	do { \
		uint64_t deadline = now_ms() + fixture_wait_ms; \
		while (!(condition)) { \
			cr_assert(now_ms() < deadline, "waited in vain for " #condition); \
			step; \
			sched_yield(); \
		} \
	} while (0)

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
void rank_open(struct rank *rank, int peer, const void *card, size_t card_size);
void rank_advance(struct rank *rank);
/* 1000 times: long enough for all that has been sent to it. */
void rank_advance_long(struct rank *rank);
void rank_close(struct rank *rank);
void pair_advance(struct pair *pair);
void pair_open_for(struct pair *pair, const char *address, size_t piece_size);
/* With messages of at most PIECE bytes. */
void pair_open(struct pair *pair, const char *address);
void pair_close(struct pair *pair);
/* Waits for message `key`, which may land in `into`, and checks it. Returns where it was shown. */
const void *rank_recv(struct rank *rank, unsigned key, size_t size, void *into, size_t into_size);
bool rank_has_message(struct rank *rank);

#endif
