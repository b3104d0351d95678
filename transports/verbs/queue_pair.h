/*
 * A reliable connected queue pair of a link, on one rail: its states, and the work requests that it
 * holds. Packets that get lost are sent again by the device, so that what is written arrives once
 * and in order, or the queue pair fails.
 *
 * Few sends are signalled: a completion of one stands for all before it.
 */
#ifndef RD_VERBS_QUEUE_PAIR_H
#define RD_VERBS_QUEUE_PAIR_H

#include <stdbool.h>
#include <stdint.h>

#include "base/settings.h"
#include "transports/verbs/rail.h"

/* Work requests that a queue pair holds; the completions that it may have at once. */
#define RD_VERBS_SENDS 128
#define RD_VERBS_RECEIVES 128
#define RD_VERBS_COMPLETIONS (RD_VERBS_SENDS + RD_VERBS_RECEIVES)

/* Where a queue pair is, for the peer. On the wire: little endian, without gaps. */
struct rd_verbs_address {
	uint32_t number;
	uint32_t psn;
	uint16_t lid;
	uint8_t mtu; /* enum ibv_mtu */
	uint8_t gid_type; /* enum rd_verbs_gid_type */
	uint32_t key; /* remote key of the ring at `ring` */
	uint64_t ring; /* address of the ring of messages that the peer writes */
	uint8_t gid[RD_VERBS_GID_SIZE];
};

/* A signalled send. */
struct rd_verbs_signal {
	uint64_t posted; /* sends until this one */
	uint64_t mark; /* the owner's */
};

struct rd_verbs_queue_pair {
	struct ibv_qp *qp; /* NULL: none */
	struct rd_verbs_rail *rail;
	void *owner;
	uint32_t psn, inline_most;
	int error; /* errno of a request that was refused; 0: none */
	bool dead; /* it has failed, and takes no request */
	_Atomic int event; /* enum ibv_event_type of its fatal event; 0: none */
	/* Sends: how many were posted, and how many of them are done as far as is known. */
	uint64_t posted, done;
	unsigned unsignalled; /* since the last signalled one */
	struct rd_verbs_signal signals[RD_VERBS_SENDS]; /* ring, by number */
	uint64_t signals_in, signals_out;
	unsigned received; /* requests used, and not posted again */
};

/* Makes it, and posts its receives. The owner is found from completions. A zeroed one may be
   destroyed, and so may one after an error. */
int rd_verbs_queue_pair_create(
	struct rd_verbs_queue_pair *pair, struct rd_verbs_rail *rail, void *owner);
void rd_verbs_queue_pair_destroy(struct rd_verbs_queue_pair *pair);

/* Number, LID, GID, MTU; the caller adds the memory. */
void rd_verbs_queue_pair_address(
	const struct rd_verbs_queue_pair *pair, struct rd_verbs_address *address);

/* Connects it to the peer's, which came over a wire: it can send once the peer has done the same.
   RONDO_UNREACHABLE, RONDO_PROTOCOL or RONDO_SYSTEM, with a reason. */
int rd_verbs_queue_pair_connect(struct rd_verbs_queue_pair *pair,
	const struct rd_verbs_address *address, const struct rd_settings *settings);

/* Moves it to error: nothing arrives any more, and all its requests complete. False: the device
   does not do that, and no completion need come. */
bool rd_verbs_queue_pair_stop(struct rd_verbs_queue_pair *pair);

/* Whether there is room for `count` sends. */
static inline bool rd_verbs_queue_pair_has_room(
	const struct rd_verbs_queue_pair *pair, unsigned count)
{
	return pair->posted - pair->done + count <= RD_VERBS_SENDS;
}

/* Posts a send, for which there is room. A signalled one reports its mark when it is done. If the
   device refuses it, pair->error is set. */
void rd_verbs_queue_pair_post(struct rd_verbs_queue_pair *pair, struct ibv_send_wr *request,
	bool signalled, uint64_t mark);

/* Completions: the owner's queue pair, and its kind. */
static inline struct rd_verbs_queue_pair *rd_verbs_queue_pair_of(const struct ibv_wc *completion)
{
	return (struct rd_verbs_queue_pair *)(uintptr_t)(completion->wr_id & ~UINT64_C(1));
}

static inline bool rd_verbs_is_receive(const struct ibv_wc *completion)
{
	return completion->wr_id & 1;
}

/* A signalled send is done; returns its mark. */
uint64_t rd_verbs_queue_pair_sent(struct rd_verbs_queue_pair *pair);
/* A receive is done: it is posted again. */
void rd_verbs_queue_pair_received(struct rd_verbs_queue_pair *pair);

#endif
