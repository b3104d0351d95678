/*
 * Tagged messages between two ranks of a comm, over its mailbox. A receive takes the first message
 * of its source and tag that none has taken.
 *
 * A short message goes out at once, and the receiver keeps it until a receive matches it: a bounded
 * number of bytes a peer. Any other is offered. Its data follow when a receive has matched the
 * offer, so each message that comes has a place, and a link is always read. Thus no order of sends
 * and receives can stop another, whatever the links hold.
 *
 *   sender                                            receiver
 *     SHORT tag, size, data  ------------------------->  a receive, or kept
 *     <------------------------------------------------  TAKEN size: of short messages, at times
 *
 *     OFFER tag, size, number  ----------------------->  a receive, or kept
 *     <------------------------------------------------  ACCEPT number
 *     DATA, pieces of one message after the other  --->  in the order of the ACCEPTs
 *
 * All functions with the mailbox's lock.
 */
#ifndef RD_MESSAGES_H
#define RD_MESSAGES_H

#include "comm/mailbox.h"

/* One send or receive, from its post to its end. Its owner has the memory. */
struct rd_tagged {
	struct rd_tagged *next;
	void *owner;
	bool receives;
	int peer; /* of a receive: or RONDO_ANY_SOURCE */
	int tag;
	char *data;
	size_t size; /* of a receive: its room */

	int source; /* the sender's rank, once matched */
	size_t length; /* of the message, once matched */
	size_t moved; /* bytes of it in or out of the link */
	uint64_t offer; /* its number */
	uint64_t posted; /* the link's count with its last piece */
	int error; /* once ended */
	bool cancelled; /* and so ended */
	bool deserted; /* all other ranks have left, and so it ended; else it has mailbox->reason */
	int64_t until_ms; /* for which this rank alone may match it; 0: not set */
	int awaited; /* threads that wait for it; its owner counts them */
};

/* Whether a message with the rank is under way; one from any source counts for none. */
static inline bool rd_messages_need(const struct rd_mailbox *mailbox, int rank)
{
	const struct rd_mailbox_peer *peer = &mailbox->peers[rank];

	if (peer->fresh.first || peer->offered.first || peer->accepted.first || peer->sent.first ||
		peer->accepting.first || peer->filling.first)
		return true;
	for (const struct rd_tagged *at = mailbox->posted.first; at; at = at->next)
		if (at->peer == rank)
			return true;
	return false;
}

/* Begins a message. RONDO_MEMORY, or an error of a link that cannot be opened: nothing began. */
int rd_messages_post(struct rd_mailbox *mailbox, struct rd_tagged *message);
/* Ends a receive that has matched nothing, with RONDO_REVOKED. Any other continues. */
void rd_messages_cancel(struct rd_mailbox *mailbox, struct rd_tagged *message);
/* Moves all that can move now. True: something did. */
bool rd_messages_step(struct rd_mailbox *mailbox);
/* Ends all messages with an error, whose reason is recorded. */
void rd_messages_fail(struct rd_mailbox *mailbox, int error);
/* Takes a message that has ended; NULL: there is none. */
struct rd_tagged *rd_messages_take(struct rd_mailbox *mailbox);

#endif
