#include "comm/matching.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"

/* ---- Ends ----------------------------------------------------------------------------------- */

void rd_match_end(struct rd_mailbox *mailbox, struct rd_tagged *message)
{
	rd_tagged_append(&mailbox->ended, message);
	mailbox->pending--;
}

void rd_match_end_all(struct rd_mailbox *mailbox, struct rd_tagged_list *list, int error)
{
	struct rd_tagged *message;

	while ((message = rd_tagged_take_first(list))) {
		message->error = error;
		rd_match_end(mailbox, message);
	}
}

void rd_match_drop(struct rd_mailbox *mailbox, int error)
{
	struct rd_unexpected *arrival;

	while ((arrival = mailbox->unexpected)) {
		mailbox->unexpected = arrival->next;
		if (arrival->own) {
			arrival->own->error = error;
			rd_match_end(mailbox, arrival->own);
		}
		free(arrival);
	}
	mailbox->last_unexpected = NULL;
}

void rd_match_fail(struct rd_mailbox *mailbox, int error, int culprit)
{
	struct rondo_comm *comm = mailbox->comm;

	if (mailbox->over)
		return;
	mailbox->over = true;
	snprintf(mailbox->reason, sizeof(mailbox->reason), "%s", rondo_last_error());
	if (comm->control)
		rd_control_report_soon(comm->control, error, culprit, mailbox->reason);
	else
		atomic_store(&comm->failed, error);
}

/* ---- Matching ------------------------------------------------------------------------------- */

/* A receive that no list has takes an arrival. */
static void take(
	struct rd_mailbox *mailbox, struct rd_tagged *message, const struct rd_unexpected *arrival)
{
	struct rd_mailbox_peer *peer = &mailbox->peers[arrival->source];

	message->source = arrival->source;
	message->length = arrival->size;
	if (arrival->size > message->size) {
		rd_tagged_append(&mailbox->posted, message); /* ends with the others */
		rd_fail(RONDO_MISMATCH,
			"rank %d sent %zu bytes with tag %d, and rank %d receives at most %zu",
			arrival->source, arrival->size, arrival->tag, mailbox->comm->rank,
			message->size);
		rd_match_fail(mailbox, RONDO_MISMATCH, arrival->source);
		return;
	}
	if (!arrival->data && !arrival->own) {
		message->offer = arrival->offer;
		rd_tagged_append(&peer->accepting, message);
		return;
	}
	if (arrival->size > 0)
		memcpy(message->data, arrival->data, arrival->size);
	if (!arrival->own)
		peer->taken += arrival->size + RD_TAGGED_COST;
	rd_match_end(mailbox, message);
}

static bool matches(const struct rd_tagged *message, int source, int tag)
{
	return message->tag == tag &&
	       (message->peer == source || message->peer == RONDO_ANY_SOURCE);
}

static void keep(struct rd_mailbox *mailbox, struct rd_unexpected *arrival)
{
	arrival->next = NULL;
	if (mailbox->last_unexpected)
		mailbox->last_unexpected->next = arrival;
	else
		mailbox->unexpected = arrival;
	mailbox->last_unexpected = arrival;
}

/* The first receive that matches a message, which is out of the list; NULL: there is none. */
static struct rd_tagged *find_receive(struct rd_mailbox *mailbox, int source, int tag)
{
	struct rd_tagged *before = NULL;

	for (struct rd_tagged *at = mailbox->posted.first; at; before = at, at = at->next)
		if (matches(at, source, tag)) {
			rd_tagged_remove_after(&mailbox->posted, before, at);
			return at;
		}
	return NULL;
}

void rd_match_arrival(struct rd_mailbox *mailbox, const struct rd_unexpected *arrival)
{
	struct rd_tagged *receive = find_receive(mailbox, arrival->source, arrival->tag);
	size_t size = arrival->data ? arrival->size : 0;
	struct rd_unexpected *kept;

	if (receive) {
		take(mailbox, receive, arrival);
		return;
	}
	kept = malloc(sizeof(*kept) + size);
	if (!kept) {
		rd_fail(RONDO_MEMORY, "rank %d has no memory for a message of rank %d",
			mailbox->comm->rank, arrival->source);
		rd_match_fail(mailbox, RONDO_MEMORY, mailbox->comm->rank);
		return;
	}
	*kept = *arrival;
	if (arrival->data)
		kept->data = memcpy(kept->kept, arrival->data, size);
	keep(mailbox, kept);
}

void rd_match_receive(struct rd_mailbox *mailbox, struct rd_tagged *message)
{
	struct rd_unexpected *before = NULL, *at = mailbox->unexpected;

	while (at && !matches(message, at->source, at->tag)) {
		before = at;
		at = at->next;
	}
	if (!at) {
		rd_tagged_append(&mailbox->posted, message);
		return;
	}
	if (before)
		before->next = at->next;
	else
		mailbox->unexpected = at->next;
	if (mailbox->last_unexpected == at)
		mailbox->last_unexpected = before;
	take(mailbox, message, at);
	if (at->own)
		rd_match_end(mailbox, at->own);
	free(at);
}

int rd_match_own_send(struct rd_mailbox *mailbox, struct rd_tagged *message)
{
	struct rd_unexpected arrival = { .source = message->peer,
		.tag = message->tag,
		.size = message->size,
		.data = message->data,
		.own = message };
	struct rd_tagged *receive = find_receive(mailbox, message->peer, message->tag);
	struct rd_unexpected *kept;

	if (receive) {
		take(mailbox, receive, &arrival);
		rd_match_end(mailbox, message);
		return 0;
	}
	kept = malloc(sizeof(*kept));
	if (!kept)
		return rd_fail(RONDO_MEMORY, "no memory for a message");
	*kept = arrival;
	keep(mailbox, kept);
	return 0;
}
