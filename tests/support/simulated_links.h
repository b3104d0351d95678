/*
 * Links between simulated ranks, with all the freedom of the transport contract.
 *
 * With zero_copy they read the sender's memory only when the message arrives, and write to the
 * receiver's memory as soon as they have its address. They report late to the sender that they are
 * done. Released room is overwritten. A plan or an executor that relies on more than the contract
 * therefore computes wrong numbers here.
 *
 * The owner has the clock and the queue of events. It hands an event back when it is due.
 */
#ifndef SIMULATED_LINKS_H
#define SIMULATED_LINKS_H

#include <stdbool.h>
#include <stdint.h>

#include "rondo/transport.h"

/* The byte that fills memory whose contents no rank may use. */
#define SIMULATED_NOISE 0xa5

/* The first kinds of the owner's events, each of one end. */
enum link_event {
	LINK_ARRIVAL, /* of the oldest message under way from this end */
	LINK_SENT, /* it learns that a message of its own has left: the memory, or else the rank */
	LINK_ROOM, /* it learns that the peer has released a message */
	LINK_CLOSE, /* it learns that its peer is gone */
	LINK_EVENTS
};

struct link_message {
	char *bytes;
	size_t size;
	struct rd_tag tag;
	const void *from; /* sent from the caller's memory, which has not been read yet */
	const void *landed; /* where the receiver has it, if not in `bytes` */
};

/* One rank's end of a link. Its messages are those that it sends. */
struct link_end {
	struct rd_link link; /* first: links are cast to ends */
	struct simulated_links *links;
	int number; /* in the ends of all, which are in the order of ranks */
	int rank;
	struct link_end *other;
	bool closed; /* here */
	bool forgotten; /* the rank's memory went with it */
	const char *gone; /* why the peer's end is; NULL: it is there */
	bool severed;

	/* Messages ever; each at most the one before, and at most `slots` apart. */
	uint64_t sent, arrived, released, returned;
	struct link_message *messages; /* [slots] */
	uint64_t busy_until_ns, last_arrival_ns;

	/* The address for the next message that arrives here. */
	void *into;
	size_t into_size;
};

struct simulated_links {
	/* The owner sets these: */
	int size, channels; /* ranks; links between two */
	int slots; /* messages that a link direction holds; plans need two */
	size_t piece_size; /* bytes of a message, at most */
	/* links have send(), read the memory as late as possible (at arrival), and land messages
	   at the receiver's address */
	bool zero_copy;
	bool needs_sender; /* until its messages arrive (link->unsent); all are copied */
	uint64_t latency_ns; /* the least time that a message takes, and news of it */
	double byte_ns; /* time a byte occupies a link direction */
	const uint64_t *now_ns;
	void *context;
	/* More time that a message takes. A link keeps its order. */
	uint64_t (*delay)(void *context);
	void (*add_event)(void *context, enum link_event kind, int end, uint64_t time_ns);
	/* Optional. Changes bytes that arrive from this end. NULL, or why the link then fails. */
	const char *(*spoil)(void *context, const struct link_end *from, char *bytes, size_t size);

	struct rd_link **of; /* [(rank * size + peer) * channels + channel]; NULL: not used */
	struct link_end *ends;
	int end_count;
	struct link_message *room;
	char *bytes;
	uint64_t messages, message_bytes; /* sent */
};

/* Opens the links of the pairs that are used, both ways: [rank * size + peer]; NULL: of all.
   Members that the owner does not set are zero. simulated_links_finish() must follow, also after
   an error. */
int simulated_links_open(struct simulated_links *links, const char *used);
void simulated_links_finish(struct simulated_links *links);
/* The rank's links: [peer * channels + channel]. */
struct rd_link **simulated_links_of(const struct simulated_links *links, int rank);

/* An event is due. Returns the rank for which something may have changed. */
int simulated_links_take(struct simulated_links *links, enum link_event kind, int end);

/* The rank's ends close. Its peers learn it one latency later, and after all messages that it had
   sent. forgets: its memory is no longer there, and messages that lie in it are lost. */
void simulated_links_close(struct simulated_links *links, int rank, bool forgets);
/* Breaks the links between these two, at both ends. Messages under way are lost. */
void simulated_links_sever(struct simulated_links *links, int a, int b);

#endif
