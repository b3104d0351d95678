/*
 * Which receive takes which tagged message, whatever link it comes over: the first one posted of
 * its source and tag takes the first one that has come, or is offered. All functions with the
 * mailbox's lock.
 */
#ifndef RD_MATCHING_H
#define RD_MATCHING_H

#include "comm/messages.h"

/* Charged for a message that goes out before a receive has matched it, beside its bytes. */
#define RD_TAGGED_COST 128

/* ---- Lists ---------------------------------------------------------------------------------- */

static inline void rd_tagged_append(struct rd_tagged_list *list, struct rd_tagged *message)
{
	message->next = NULL;
	if (list->last)
		list->last->next = message;
	else
		list->first = message;
	list->last = message;
}

static inline struct rd_tagged *rd_tagged_take_first(struct rd_tagged_list *list)
{
	struct rd_tagged *message = list->first;

	if (!message)
		return NULL;
	list->first = message->next;
	if (!list->first)
		list->last = NULL;
	return message;
}

static inline void rd_tagged_remove_after(
	struct rd_tagged_list *list, struct rd_tagged *before, struct rd_tagged *message)
{
	if (before)
		before->next = message->next;
	else
		list->first = message->next;
	if (list->last == message)
		list->last = before;
}

/* ---- Matching ------------------------------------------------------------------------------- */

/* The message has ended: its owner takes it. */
void rd_match_end(struct rd_mailbox *mailbox, struct rd_tagged *message);
void rd_match_end_all(struct rd_mailbox *mailbox, struct rd_tagged_list *list, int error);

/* The error, whose reason is recorded, is to end the comm, and with it all messages. */
void rd_match_fail(struct rd_mailbox *mailbox, int error, int culprit);
/* Frees what no receive has matched. This rank's sends to itself among them end with the error. */
void rd_match_drop(struct rd_mailbox *mailbox, int error);

/* A message has come, and its data with it where arrival->data is not NULL. */
void rd_match_arrival(struct rd_mailbox *mailbox, const struct rd_unexpected *arrival);
void rd_match_receive(struct rd_mailbox *mailbox, struct rd_tagged *message);
/* A send of this rank to itself. RONDO_MEMORY, or 0. */
int rd_match_own_send(struct rd_mailbox *mailbox, struct rd_tagged *message);

#endif
