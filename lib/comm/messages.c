#include "comm/messages.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "comm/any_source.h"

/* The most bytes of a message that goes out before a receive has matched it. */
#define SHORT_MOST 4096
/* The most bytes of such messages that a peer has not taken, with the cost of each. */
#define SHORT_ROOM (128 * 1024)
#define SHORT_COST 128
/* From this size on, a piece is received into the buffer. No short message has that size. */
#define LAND_LEAST (SHORT_MOST + 1)
/* The most messages of a link that a step sends, and receives. */
#define STEP_MOST 32

enum { SHORT = 1, TAKEN, OFFER, ACCEPT, DATA };

struct header {
	int32_t kind, tag;
	uint64_t size, offer;
};

_Static_assert(sizeof(struct header) == RD_TAG_SIZE, "a header is a message's tag");

/* ---- Lists ---------------------------------------------------------------------------------- */

static void append(struct rd_tagged_list *list, struct rd_tagged *message)
{
	message->next = NULL;
	if (list->last)
		list->last->next = message;
	else
		list->first = message;
	list->last = message;
}

static struct rd_tagged *take_first(struct rd_tagged_list *list)
{
	struct rd_tagged *message = list->first;

	if (!message)
		return NULL;
	list->first = message->next;
	if (!list->first)
		list->last = NULL;
	return message;
}

static void remove_after(
	struct rd_tagged_list *list, struct rd_tagged *before, struct rd_tagged *message)
{
	if (before)
		before->next = message->next;
	else
		list->first = message->next;
	if (list->last == message)
		list->last = before;
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

/* ---- Ends ----------------------------------------------------------------------------------- */

static void end(struct rd_mailbox *mailbox, struct rd_tagged *message)
{
	append(&mailbox->ended, message);
	mailbox->pending--;
}

struct rd_tagged *rd_messages_take(struct rd_mailbox *mailbox)
{
	return take_first(&mailbox->ended);
}

static void end_all(struct rd_mailbox *mailbox, struct rd_tagged_list *list, int error)
{
	struct rd_tagged *message;

	while ((message = take_first(list))) {
		message->error = error;
		end(mailbox, message);
	}
}

static void drop_unexpected(struct rd_mailbox *mailbox, int error)
{
	struct rd_unexpected *arrival;

	while ((arrival = mailbox->unexpected)) {
		mailbox->unexpected = arrival->next;
		if (arrival->own) {
			arrival->own->error = error;
			end(mailbox, arrival->own);
		}
		free(arrival);
	}
	mailbox->last_unexpected = NULL;
}

/* From here on its link uses no memory of messages. Short ones that went out before go on. */
static void cut(const struct rd_mailbox_peer *peer, int error)
{
	if ((peer->accepted.first || peer->sent.first || peer->filling.first) && !peer->link->error)
		peer->link->error = error;
}

void rd_messages_fail(struct rd_mailbox *mailbox, int error)
{
	mailbox->over = true;
	/* A rank that is alone has no verdict: its own failure is the reason. */
	if (mailbox->comm->control || !mailbox->reason[0])
		snprintf(mailbox->reason, sizeof(mailbox->reason), "%s", rondo_last_error());
	end_all(mailbox, &mailbox->posted, error);
	for (int i = 0; i < mailbox->linked_count; i++) {
		struct rd_mailbox_peer *peer = &mailbox->peers[mailbox->linked[i]];

		cut(peer, error);
		end_all(mailbox, &peer->fresh, error);
		end_all(mailbox, &peer->offered, error);
		end_all(mailbox, &peer->accepted, error);
		end_all(mailbox, &peer->sent, error);
		end_all(mailbox, &peer->accepting, error);
		end_all(mailbox, &peer->filling, error);
	}
	drop_unexpected(mailbox, error);
}

/* The error, whose reason is recorded, is to end the comm, and with it all messages. */
static void report(struct rd_mailbox *mailbox, int error, int culprit)
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
		append(&mailbox->posted, message); /* ends with the others */
		rd_fail(RONDO_MISMATCH,
			"rank %d sent %zu bytes with tag %d, and rank %d receives at most %zu",
			arrival->source, arrival->size, arrival->tag, mailbox->comm->rank,
			message->size);
		report(mailbox, RONDO_MISMATCH, arrival->source);
		return;
	}
	if (!arrival->data && !arrival->own) {
		message->offer = arrival->offer;
		append(&peer->accepting, message);
		return;
	}
	if (arrival->size > 0)
		memcpy(message->data, arrival->data, arrival->size);
	if (!arrival->own)
		peer->taken += arrival->size + SHORT_COST;
	end(mailbox, message);
}

static bool matches(const struct rd_tagged *message, int source, int tag)
{
	return message->tag == tag &&
	       (message->peer == source || message->peer == RONDO_ANY_SOURCE);
}

/* The first receive that matches a message, which is out of the list; NULL: there is none. */
static struct rd_tagged *find_receive(struct rd_mailbox *mailbox, int source, int tag)
{
	struct rd_tagged *before = NULL;

	for (struct rd_tagged *at = mailbox->posted.first; at; before = at, at = at->next)
		if (matches(at, source, tag)) {
			remove_after(&mailbox->posted, before, at);
			return at;
		}
	return NULL;
}

/* A message has come, and its data with it where arrival->data is not NULL. */
static void arrive(struct rd_mailbox *mailbox, const struct rd_unexpected *arrival)
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
		report(mailbox, RONDO_MEMORY, mailbox->comm->rank);
		return;
	}
	*kept = *arrival;
	if (arrival->data)
		kept->data = memcpy(kept->kept, arrival->data, size);
	keep(mailbox, kept);
}

/* ---- Beginning ------------------------------------------------------------------------------ */

static void post_receive(struct rd_mailbox *mailbox, struct rd_tagged *message)
{
	struct rd_unexpected *before = NULL, *at = mailbox->unexpected;

	while (at && !matches(message, at->source, at->tag)) {
		before = at;
		at = at->next;
	}
	if (!at) {
		append(&mailbox->posted, message);
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
		end(mailbox, at->own);
	free(at);
}

static int send_to_self(struct rd_mailbox *mailbox, struct rd_tagged *message)
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
		end(mailbox, message);
		return 0;
	}
	kept = malloc(sizeof(*kept));
	if (!kept)
		return rd_fail(RONDO_MEMORY, "no memory for a message");
	*kept = arrival;
	keep(mailbox, kept);
	return 0;
}

int rd_messages_post(struct rd_mailbox *mailbox, struct rd_tagged *message)
{
	int rank = mailbox->comm->rank, err = 0;

	message->moved = 0;
	message->error = 0;
	message->cancelled = message->deserted = false;
	message->until_ms = 0;
	message->source = message->receives ? -1 : rank;
	message->length = message->receives ? 0 : message->size;
	mailbox->pending++;
	if (message->peer != rank && message->peer != RONDO_ANY_SOURCE)
		err = rd_mailbox_open(mailbox, message->peer);
	if (!err && message->receives)
		post_receive(mailbox, message);
	else if (!err && message->peer == rank)
		err = send_to_self(mailbox, message);
	else if (!err)
		append(&mailbox->peers[message->peer].fresh, message);
	mailbox->pending -= err != 0;
	return err;
}

void rd_messages_cancel(struct rd_mailbox *mailbox, struct rd_tagged *message)
{
	struct rd_tagged *before = NULL, *at = mailbox->posted.first;

	while (at && at != message) {
		before = at;
		at = at->next;
	}
	if (!at || mailbox->over)
		return;
	remove_after(&mailbox->posted, before, at);
	at->error = RONDO_REVOKED;
	at->cancelled = true;
	end(mailbox, at);
}

/* ---- Out ------------------------------------------------------------------------------------ */

/* False: there is no room. */
static bool put(struct rd_link *link, const struct header *header, const void *data, size_t size)
{
	struct rd_tag tag;
	void *room = link->ops->reserve(link, size);

	if (!room)
		return false;
	if (size > 0)
		memcpy(room, data, size);
	memcpy(&tag, header, sizeof(tag));
	link->ops->commit(link, &tag, size);
	return true;
}

static bool accept_offers(struct rd_mailbox_peer *peer)
{
	bool moved = false;

	while (peer->accepting.first) {
		struct header header = { .kind = ACCEPT, .offer = peer->accepting.first->offer };

		if (!put(peer->link, &header, NULL, 0))
			break;
		append(&peer->filling, take_first(&peer->accepting));
		moved = true;
	}
	return moved;
}

static bool report_taken(struct rd_mailbox_peer *peer)
{
	struct header header = { .kind = TAKEN, .size = peer->taken };

	if (peer->taken < SHORT_ROOM / 2 || !put(peer->link, &header, NULL, 0))
		return false;
	peer->taken = 0;
	return true;
}

/* Sends the message, or offers it. */
static bool announce(
	struct rd_mailbox *mailbox, struct rd_mailbox_peer *peer, struct rd_tagged *message)
{
	size_t cost = message->size + SHORT_COST;
	bool is_short = message->size <= SHORT_MOST &&
			message->size <= mailbox->settings.piece_size &&
			peer->eager + cost <= SHORT_ROOM;
	struct header header = { .kind = is_short ? SHORT : OFFER,
		.tag = message->tag,
		.size = message->size,
		.offer = peer->offers };

	if (!put(peer->link, &header, message->data, is_short ? message->size : 0))
		return false;
	take_first(&peer->fresh);
	if (is_short) {
		peer->eager += cost;
		end(mailbox, message);
		return true;
	}
	message->offer = peer->offers++;
	append(&peer->offered, message);
	return true;
}

/* Whether a piece is sent from where it lies. Over shm, both copies side by side take less time
   than a single one by the receiver: 110 us for 1 MiB between two ranks, where that took 300. */
static bool is_posted(const struct rd_link *link, size_t size)
{
	return link->ops->send && !link->single_copy && size >= link->send_min;
}

static bool put_piece(struct rd_mailbox *mailbox, struct rd_link *link, struct rd_tagged *message)
{
	size_t left = message->size - message->moved, most = mailbox->settings.piece_size;
	size_t size = left < most ? left : most;
	struct header header = { .kind = DATA };
	const char *from = message->data + message->moved;
	struct rd_tag tag;
	bool sent;

	memcpy(&tag, &header, sizeof(tag));
	if (is_posted(link, size))
		sent = link->ops->send(link, &tag, from, size);
	else
		sent = put(link, &header, from, size);
	if (!sent)
		return false;
	message->moved += size;
	message->posted = link->posted;
	return true;
}

/* Whether a step moves another message of a link, after some. */
static bool continues(const struct rd_mailbox *mailbox, int moved)
{
	return moved == 0 || (moved < STEP_MOST && !rd_mailbox_is_awaited(mailbox));
}

static bool send_data(struct rd_mailbox *mailbox, struct rd_mailbox_peer *peer)
{
	struct rd_tagged *message;
	bool moved = false;

	for (int pieces = 0; continues(mailbox, pieces) && (message = peer->accepted.first) &&
			     put_piece(mailbox, peer->link, message);
		pieces++) {
		moved = true;
		if (message->moved == message->size)
			append(&peer->sent, take_first(&peer->accepted));
	}
	while ((message = peer->sent.first) && peer->link->sent >= message->posted) {
		end(mailbox, take_first(&peer->sent));
		moved = true;
	}
	return moved;
}

static bool send_out(struct rd_mailbox *mailbox, struct rd_mailbox_peer *peer)
{
	bool moved = accept_offers(peer);

	moved |= report_taken(peer);
	while (peer->fresh.first && announce(mailbox, peer, peer->fresh.first))
		moved = true;
	return send_data(mailbox, peer) || moved;
}

/* ---- In ------------------------------------------------------------------------------------- */

/* The peer has accepted an offer. False: there is none of this number. */
static bool take_acceptance(struct rd_mailbox_peer *peer, uint64_t offer)
{
	struct rd_tagged *before = NULL;

	for (struct rd_tagged *at = peer->offered.first; at; before = at, at = at->next)
		if (at->offer == offer) {
			remove_after(&peer->offered, before, at);
			append(&peer->accepted, at);
			return true;
		}
	return false;
}

static size_t next_piece(const struct rd_mailbox *mailbox, const struct rd_tagged *message)
{
	size_t left = message ? message->length - message->moved : 0;

	return left < mailbox->settings.piece_size ? left : mailbox->settings.piece_size;
}

/* A piece of the message that is filled. False: none is due, or one of another size. */
static bool take_data(
	struct rd_mailbox *mailbox, struct rd_mailbox_peer *peer, const struct rd_message *in)
{
	struct rd_tagged *message = peer->filling.first;
	char *place;

	if (!message || in->size != next_piece(mailbox, message))
		return false;
	place = message->data + message->moved;
	if (in->size > 0 && in->data != place)
		memcpy(place, in->data, in->size);
	message->moved += in->size;
	if (message->moved == message->length)
		end(mailbox, take_first(&peer->filling));
	return true;
}

/* False: it makes no sense. */
static bool take_in(struct rd_mailbox *mailbox, int source, const struct rd_message *in)
{
	struct rd_mailbox_peer *peer = &mailbox->peers[source];
	struct rd_unexpected arrival = { .source = source };
	struct header header;

	memcpy(&header, in->tag, sizeof(header));
	arrival.tag = header.tag;
	arrival.size = header.size;
	arrival.offer = header.offer;
	switch (header.kind) {
	case SHORT:
		if (in->size != header.size || in->size > SHORT_MOST)
			return false;
		arrival.data = in->size > 0 ? in->data : "";
		arrive(mailbox, &arrival);
		return true;
	case OFFER:
		arrive(mailbox, &arrival);
		return true;
	case TAKEN:
		if (header.size > peer->eager)
			return false;
		peer->eager -= header.size;
		return true;
	case ACCEPT:
		return take_acceptance(peer, header.offer);
	case DATA:
		return take_data(mailbox, peer, in);
	default:
		return false;
	}
}

static bool receive_one(struct rd_mailbox *mailbox, int source)
{
	struct rd_mailbox_peer *peer = &mailbox->peers[source];
	struct rd_tagged *message = peer->filling.first;
	size_t size = next_piece(mailbox, message);
	bool lands = size >= LAND_LEAST;
	struct rd_message in;

	if (!peer->link->ops->recv(peer->link, lands ? message->data + message->moved : NULL,
		    lands ? size : 0, &in))
		return false;
	if (!take_in(mailbox, source, &in)) {
		rd_fail(RONDO_PROTOCOL, "rank %d sent rank %d a tagged message that makes no sense",
			source, mailbox->comm->rank);
		report(mailbox, RONDO_PROTOCOL, source);
	}
	peer->link->ops->release(peer->link);
	return true;
}

/* ---- Steps ---------------------------------------------------------------------------------- */

/* All that came before the end has been received. */
static void look_for_end(struct rd_mailbox *mailbox, int rank)
{
	const char *reason;

	if (!rd_mailbox_is_broken(mailbox, rank, &reason))
		return;
	if (!mailbox->peers[rank].ended)
		mailbox->last_ended = rank;
	mailbox->peers[rank].ended = true;
	if (!rd_messages_need(mailbox, rank))
		return;
	rd_fail(RONDO_BROKEN, "rank %d has a tagged message under way with rank %d: %s",
		mailbox->comm->rank, rank, reason);
	report(mailbox, RONDO_BROKEN, rank);
}

static bool step_peer(struct rd_mailbox *mailbox, int rank)
{
	struct rd_mailbox_peer *peer = &mailbox->peers[rank];
	bool moved = false;

	if (peer->link && peer->link->ready) {
		moved = send_out(mailbox, peer);
		for (int i = 0;
			continues(mailbox, i) && !mailbox->over && receive_one(mailbox, rank); i++)
			moved = true;
		mailbox->unsent |= peer->link->unsent;
	}
	if (!moved)
		look_for_end(mailbox, rank);
	return moved;
}

/* The receives from any source to which nobody sends any more. The comm continues. */
static bool end_deserted(struct rd_mailbox *mailbox)
{
	struct rd_tagged *before = NULL, *next;
	bool moved = false;

	for (struct rd_tagged *at = mailbox->posted.first; at; at = next) {
		next = at->next;
		if (!rd_any_source_gives_up(mailbox, at)) {
			before = at;
			continue;
		}
		remove_after(&mailbox->posted, before, at);
		at->error = RONDO_LEFT;
		at->deserted = true;
		end(mailbox, at);
		moved = true;
	}
	return moved;
}

bool rd_messages_step(struct rd_mailbox *mailbox)
{
	int err, culprit;
	bool moved;

	if (mailbox->over)
		return false;
	moved = rd_mailbox_advance(mailbox);
	mailbox->unsent = false;
	for (int i = 0; i < mailbox->linked_count && !mailbox->over; i++)
		moved |= step_peer(mailbox, mailbox->linked[i]);
	if (moved)
		return true;
	if (rd_any_source_is_deserted(mailbox))
		return end_deserted(mailbox);
	err = rd_any_source_check(mailbox, &culprit);
	if (err)
		report(mailbox, err, culprit);
	return false;
}
