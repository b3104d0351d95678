/*
 * The simulated network: the links of all ranks, virtual time, and the queue of events.
 *
 * The links use all the freedom of the transport contract. With zero_copy they read the sender's
 * memory only when the message arrives, and write to the receiver's memory as soon as they have its
 * address. They report late to the sender that they are done. Released room is overwritten. A plan
 * or an executor that relies on more than the contract therefore computes wrong numbers here.
 */
#ifndef RD_NETWORK_H
#define RD_NETWORK_H

#include "check/event_queue.h"
#include "check/simulator.h"

/* The byte that fills memory whose contents no rank may use. */
#define RD_NOISE 0xa5

enum rd_network_event {
	RD_EVENT_START, /* a rank makes the call */
	RD_EVENT_DEATH, /* of a rank */
	RD_EVENT_ARRIVAL, /* of the oldest message under way on a link */
	RD_EVENT_SENT, /* a link learns that a message of its own has left the caller's memory */
	RD_EVENT_ROOM, /* a link learns that the peer has released a message */
	RD_EVENT_CLOSE, /* a link learns that its peer is gone */
};

struct rd_network_message {
	char *bytes;
	size_t size;
	struct rd_tag tag;
	const void *from; /* sent from the caller's memory, which has not been read yet */
	const void *landed; /* where the receiver has it, if not in `bytes` */
};

/* One rank's end of a link. Its messages are those that it sends. */
struct rd_link_end {
	struct rd_link link; /* first: links are cast to ends */
	struct rd_network *network;
	int number; /* in the network's ends, which are in the order of ranks */
	int rank;
	struct rd_link_end *other;
	bool peer_gone;

	/* Messages ever; each at most the one before, and at most `slots` apart. */
	uint64_t sent, arrived, released, returned;
	struct rd_network_message *messages; /* [slots] */
	uint64_t busy_until_ns, last_arrival_ns;

	/* The address for the next message that arrives here. */
	void *into;
	size_t into_size;
};

struct rd_network {
	const struct rd_simulation *set;
	struct rd_simulated *simulated; /* counts messages and bytes */
	uint64_t now_ns;
	uint64_t random;
	struct rd_event_queue events;
	struct rd_link **links; /* [(rank * size + peer) * channels + channel]; NULL: not used */
	struct rd_link_end *ends;
	int end_count;
	struct rd_network_message *messages;
	char *bytes;
	int error; /* of the simulation itself: no memory */
};

/* Creates the links that plans[set->size] use. The plans name existing peers. set, simulated and
   random are set; all else is zero. rd_network_finish() must follow, also after an error. */
int rd_network_connect(struct rd_network *network, const struct rd_plan *const *plans);
void rd_network_finish(struct rd_network *network);

/* Adds an event. subject: a rank, or the number of an end. */
void rd_network_add_event(
	struct rd_network *network, enum rd_network_event kind, int subject, uint64_t time_ns);
/* Draws a number from 0 to `most`. */
uint64_t rd_network_draw(struct rd_network *network, uint64_t most);

/* The end learns that its oldest message has left: the memory, or else the rank. */
void rd_link_end_sent(struct rd_link_end *end);
/* The oldest message under way from this end arrives at the other. */
void rd_link_end_arrive(struct rd_link_end *end);
/* The peer is gone: the link fails once all messages that have arrived are read. */
void rd_link_end_close(struct rd_link_end *end);

static inline size_t rd_network_link_index(
	const struct rd_network *network, int rank, int peer, int channel)
{
	return ((size_t)rank * network->set->size + peer) * network->set->channels + channel;
}

static inline uint64_t rd_latest(uint64_t a, uint64_t b)
{
	return a > b ? a : b;
}

#endif
