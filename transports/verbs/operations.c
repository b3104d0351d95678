#include "transports/verbs/operations.h"

#include "transports/verbs/completion.h"
#include "transports/verbs/failover.h"
#include "transports/verbs/landing.h"
#include "transports/verbs/messages.h"

static struct rd_verbs_link *link_of(struct rd_link *base)
{
	return (struct rd_verbs_link *)base; /* base comes first */
}

static struct rd_verbs_queue_pair *pair_of(const struct rd_verbs_link *link)
{
	return &link->pairs[link->base.rail];
}

static void fail_closed(struct rd_verbs_link *link)
{
	rd_verbs_link_fail(link, RONDO_BROKEN, "closed its connection");
}

bool rd_verbs_link_check_end(struct rd_verbs_link *link)
{
	if (link->hung_up && link->in.arrived == link->in.released)
		fail_closed(link);
	return link->base.error != 0;
}

/* Unread messages of a peer that is gone must not hide that there will never be room. */
static void *link_reserve(struct rd_link *base, size_t size)
{
	struct rd_verbs_link *link = link_of(base);
	void *room;

	if (!base->ready || base->error)
		return NULL;
	if (link->hung_up) {
		fail_closed(link);
		return NULL;
	}
	room = rd_verbs_message_room(link, size);
	if (room)
		return room;
	rd_verbs_rail_poll(pair_of(link)->rail);
	return base->error ? NULL : rd_verbs_message_room(link, size);
}

static void check_requests(struct rd_verbs_link *link)
{
	if (pair_of(link)->error)
		rd_verbs_request_refused(link, pair_of(link));
}

static void link_commit(struct rd_link *base, const struct rd_tag *tag, size_t size)
{
	rd_verbs_message_send(link_of(base), tag, size);
	check_requests(link_of(base));
}

static bool link_send(struct rd_link *base, const struct rd_tag *tag, const void *from, size_t size)
{
	if (!link_reserve(base, size))
		return false;
	rd_verbs_message_send_from(link_of(base), tag, from, size);
	check_requests(link_of(base));
	return true;
}

static bool link_recv(struct rd_link *base, void *into, size_t size, struct rd_message *message)
{
	struct rd_verbs_link *link = link_of(base);

	if (!base->ready || base->error)
		return false;
	if (rd_verbs_message_next(link, message))
		return true;
	rd_verbs_rail_poll(pair_of(link)->rail);
	if (base->error || rd_verbs_message_next(link, message))
		return !base->error;
	if (into && !link->hung_up)
		rd_verbs_landing_announce(link, into, size);
	return false;
}

static void link_release(struct rd_link *base)
{
	rd_verbs_message_release(link_of(base));
	check_requests(link_of(base));
}

const struct rd_link_ops rd_verbs_link_ops = {
	.reserve = link_reserve,
	.commit = link_commit,
	.send = link_send,
	.recv = link_recv,
	.release = link_release,
};
