#include "comm/messages.h"

#include <stdio.h>
#include <string.h>

#include "base/error.h"
#include "comm/matching.h"

/* The most bytes of a message that goes out before a receive has matched it. */
#define SHORT_MOST 4096
/* The most bytes of such messages that a peer has not taken, with RD_TAGGED_COST for each. */
#define SHORT_ROOM (128 * 1024)
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

/* ---- Ends ----------------------------------------------------------------------------------- */

struct rd_tagged *rd_messages_take(struct rd_mailbox *mailbox)
{
	return rd_tagged_take_first(&mailbox->ended);
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
	rd_match_end_all(mailbox, &mailbox->posted, error);
	for (int i = 0; i < mailbox->linked_count; i++) {
		struct rd_mailbox_peer *peer = &mailbox->peers[mailbox->linked[i]];

		cut(peer, error);
		rd_match_end_all(mailbox, &peer->fresh, error);
		rd_match_end_all(mailbox, &peer->offered, error);
		rd_match_end_all(mailbox, &peer->accepted, error);
		rd_match_end_all(mailbox, &peer->sent, error);
		rd_match_end_all(mailbox, &peer->accepting, error);
		rd_match_end_all(mailbox, &peer->filling, error);
	}
	rd_match_drop(mailbox, error);
}

/* ---- Beginning ------------------------------------------------------------------------------ */

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
		rd_match_receive(mailbox, message);
	else if (!err && message->peer == rank)
		err = rd_match_own_send(mailbox, message);
	else if (!err)
		rd_tagged_append(&mailbox->peers[message->peer].fresh, message);
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
	rd_tagged_remove_after(&mailbox->posted, before, at);
	at->error = RONDO_REVOKED;
	at->cancelled = true;
	rd_match_end(mailbox, at);
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
		rd_tagged_append(&peer->filling, rd_tagged_take_first(&peer->accepting));
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
	size_t cost = message->size + RD_TAGGED_COST;
	bool is_short = message->size <= SHORT_MOST &&
			message->size <= mailbox->settings.piece_size &&
			peer->eager + cost <= SHORT_ROOM;
	struct header header = { .kind = is_short ? SHORT : OFFER,
		.tag = message->tag,
		.size = message->size,
		.offer = peer->offers };

	if (!put(peer->link, &header, message->data, is_short ? message->size : 0))
		return false;
	rd_tagged_take_first(&peer->fresh);
	if (is_short) {
		peer->eager += cost;
		rd_match_end(mailbox, message);
		return true;
	}
	message->offer = peer->offers++;
	rd_tagged_append(&peer->offered, message);
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
			rd_tagged_append(&peer->sent, rd_tagged_take_first(&peer->accepted));
	}
	while ((message = peer->sent.first) && peer->link->sent >= message->posted) {
		rd_match_end(mailbox, rd_tagged_take_first(&peer->sent));
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
			rd_tagged_remove_after(&peer->offered, before, at);
			rd_tagged_append(&peer->accepted, at);
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
		rd_match_end(mailbox, rd_tagged_take_first(&peer->filling));
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
		rd_match_arrival(mailbox, &arrival);
		return true;
	case OFFER:
		rd_match_arrival(mailbox, &arrival);
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
		rd_match_fail(mailbox, RONDO_PROTOCOL, source);
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
	rd_match_fail(mailbox, RONDO_BROKEN, rank);
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
		return rd_any_source_end_deserted(mailbox);
	err = rd_any_source_check(mailbox, &culprit);
	if (err)
		rd_match_fail(mailbox, err, culprit);
	return false;
}
