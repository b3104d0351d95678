#include "comm/matching.h"

#include "base/clock.h"
#include "base/duration.h"
#include "base/error.h"

static bool has_sender(const struct rd_mailbox *mailbox)
{
	bool found = false;

	for (int i = 0; i < mailbox->linked_count && !found; i++) {
		const struct rd_mailbox_peer *at = &mailbox->peers[mailbox->linked[i]];

		found = !at->ended && at->link && at->link->ready;
	}
	return found;
}

static bool is_awaited(const struct rd_mailbox *mailbox)
{
	const struct rd_tagged *at = mailbox->posted.first;

	while (at && at->peer != RONDO_ANY_SOURCE)
		at = at->next;
	return at;
}

/* A link that is not ready may bring a message of a rank that has left. */
static bool has_link(const struct rd_mailbox *mailbox)
{
	int i = 0;

	while (i < mailbox->linked_count && mailbox->peers[mailbox->linked[i]].ended)
		i++;
	return i < mailbox->linked_count;
}

bool rd_any_source_is_deserted(const struct rd_mailbox *mailbox)
{
	return mailbox->deserted && is_awaited(mailbox) && !has_link(mailbox);
}

/* A message of this rank itself may match the receive, for the timeout of calls; but not where a
   thread waits for it. */
static bool gives_up(const struct rd_mailbox *mailbox, struct rd_tagged *receive)
{
	if (receive->peer != RONDO_ANY_SOURCE)
		return false;
	if (!receive->until_ms)
		receive->until_ms = rd_clock_ms() + rd_comm_timeout_ms(mailbox->comm);
	return receive->awaited > 0 || rd_clock_ms() >= receive->until_ms;
}

bool rd_any_source_end_deserted(struct rd_mailbox *mailbox)
{
	struct rd_tagged *before = NULL, *next;
	bool moved = false;

	for (struct rd_tagged *at = mailbox->posted.first; at; at = next) {
		next = at->next;
		if (!gives_up(mailbox, at)) {
			before = at;
			continue;
		}
		rd_tagged_remove_after(&mailbox->posted, before, at);
		at->error = RONDO_LEFT;
		at->deserted = true;
		rd_match_end(mailbox, at);
		moved = true;
	}
	return moved;
}

static int fail(struct rd_mailbox *mailbox)
{
	const struct rondo_comm *comm = mailbox->comm;
	int last = mailbox->last_ended;
	char duration[RD_DURATION_SIZE];
	const char *reason;

	rd_duration(duration, rd_comm_timeout_ms(comm));
	if (last < 0)
		return rd_fail(RONDO_UNREACHABLE,
			"rank %d receives from any source, and has a link of tagged messages to no "
			"rank after %s: rank 0, which has left, cannot have one opened",
			comm->rank, duration);
	rd_mailbox_is_broken(mailbox, last, &reason);
	return rd_fail(RONDO_BROKEN,
		"rank %d receives from any source, and has had a link of tagged messages to no "
		"rank for %s; the last, to rank %d: %s",
		comm->rank, duration, last, reason);
}

int rd_any_source_check(struct rd_mailbox *mailbox, int *culprit)
{
	const struct rondo_comm *comm = mailbox->comm;
	bool alone = comm->control && rd_control_is_unattended(comm->control) &&
		     is_awaited(mailbox) && !has_sender(mailbox);
	int64_t now_ms;

	*culprit = mailbox->last_ended;
	if (!alone) {
		mailbox->alone_until_ms = 0;
		return 0;
	}
	now_ms = rd_clock_ms();
	if (!mailbox->alone_until_ms)
		mailbox->alone_until_ms = now_ms + rd_comm_timeout_ms(comm);
	return now_ms < mailbox->alone_until_ms ? 0 : fail(mailbox);
}
