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

/* ---- any_source.c: receives from any source that no other rank can match --------------------- */

/*
 * All others have left: then such a receive ends, and the comm continues. Or rank 0's process has
 * ended: nobody can have a further link opened then, and those that are open end with their ranks,
 * which ends the comm. All functions where nothing moved.
 */

/* Whether all other ranks have left, all that they sent has come, and such a receive is left. */
bool rd_any_source_is_deserted(const struct rd_mailbox *mailbox);
/* In that case: ends those. The comm continues. True: some have ended. */
bool rd_any_source_end_deserted(struct rd_mailbox *mailbox);
/* An error, with its reason, where a receive from any source has waited for the timeout of calls
   without a link over which a message may come. *culprit: the rank whose link ended last; -1: none
   was open. */
int rd_any_source_check(struct rd_mailbox *mailbox, int *culprit);

#endif
