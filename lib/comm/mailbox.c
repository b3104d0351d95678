#include "comm/mailbox.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>

#include "base/clock.h"
#include "base/duration.h"
#include "base/error.h"
#include "base/hash.h"
#include "bootstrap/rendezvous.h"
#include "comm/comm_log.h"
#include "comm/messages.h"
#include "comm/route.h"

/* For which this rank waits for the rest of a link whose peer has left. */
#define LEFT_MS RD_QUERY_MS

/* ---- Making --------------------------------------------------------------------------------- */

static struct rd_mailbox *create(struct rondo_comm *comm)
{
	struct rd_mailbox *mailbox = calloc(1, sizeof(*mailbox));

	if (mailbox) {
		mailbox->peers = calloc((size_t)comm->size, sizeof(*mailbox->peers));
		mailbox->linked = calloc((size_t)comm->size, sizeof(*mailbox->linked));
	}
	if (!mailbox || !mailbox->peers || !mailbox->linked) {
		if (mailbox) {
			free(mailbox->peers);
			free(mailbox->linked);
		}
		free(mailbox);
		rd_fail(RONDO_MEMORY, "no memory for tagged messages");
		return NULL;
	}
	pthread_mutex_init(&mailbox->lock, NULL);
	mailbox->comm = comm;
	mailbox->last_ended = -1;
	mailbox->settings = comm->settings;
	mailbox->settings.channels = 1;
	mailbox->settings.piece_size = comm->piece_size;
	/* Not its epoll: another thread's call may be making that now. */
	mailbox->local = (struct rd_local){
		.rank = comm->local.rank,
		.size = comm->local.size,
		.place = comm->local.place,
		.settings = &mailbox->settings,
		.comm_id = rd_hash(RD_HASH_INIT, &comm->local.comm_id, sizeof(uint64_t)),
		.epoll_fd = -1,
		.shared = comm->local.shared,
	};
	memcpy(mailbox->local.key, comm->local.key, sizeof(mailbox->local.key));
	return mailbox;
}

struct rd_mailbox *rd_mailbox_get(struct rondo_comm *comm)
{
	struct rd_mailbox *mailbox = atomic_load(&comm->mailbox);

	if (mailbox)
		return mailbox;
	pthread_mutex_lock(&comm->turn_lock);
	mailbox = atomic_load(&comm->mailbox);
	if (!mailbox) {
		mailbox = create(comm);
		atomic_store(&comm->mailbox, mailbox);
	}
	pthread_mutex_unlock(&comm->turn_lock);
	return mailbox;
}

/* ---- The lock ------------------------------------------------------------------------------- */

void rd_mailbox_enter(struct rd_mailbox *mailbox)
{
	if (pthread_mutex_trylock(&mailbox->lock) == 0)
		return;
	atomic_fetch_add(&mailbox->entering, 1);
	pthread_mutex_lock(&mailbox->lock);
	atomic_fetch_sub(&mailbox->entering, 1);
}

void rd_mailbox_exit(struct rd_mailbox *mailbox)
{
	pthread_mutex_unlock(&mailbox->lock);
}

/* ---- Opening -------------------------------------------------------------------------------- */

/* The index of the transport for this pair; -1: there is none. Both ranks find the same, once both
   have the pair's fallbacks. */
static int choose(const struct rd_mailbox *mailbox, int peer, unsigned barred)
{
	const struct rondo_comm *comm = mailbox->comm;
	const struct rd_endpoint *endpoint;

	for (int i = 0; i < comm->endpoint_count; i++)
		if (!comm->endpoints[i]->transport->shares)
			barred |= 1u << i;
	endpoint = rd_route_cheapest(comm, rd_control_members(comm->control), peer, barred);
	for (int i = 0; i < comm->endpoint_count; i++)
		if (comm->endpoints[i] == endpoint)
			return i;
	return -1;
}

bool rd_mailbox_reaches(struct rd_mailbox *mailbox, int peer)
{
	bool reaches;

	rd_mailbox_enter(mailbox);
	reaches = choose(mailbox, peer, mailbox->peers[peer].barred) >= 0;
	rd_mailbox_exit(mailbox);
	return reaches;
}

static int make_endpoint(struct rd_mailbox *mailbox, int index)
{
	const struct rd_transport *transport = mailbox->comm->endpoints[index]->transport;
	unsigned char card[RD_CARD_MAX];
	size_t size;

	if (mailbox->endpoints[index])
		return 0;
	if (transport->watches_links && mailbox->local.epoll_fd < 0) {
		mailbox->local.epoll_fd = rd_shared_borrow(mailbox->comm->shared);
		if (mailbox->local.epoll_fd < 0)
			return rd_fail_errno("cannot make an epoll");
	}
	/* The card is the station's, which peers have. */
	return transport->listen(&mailbox->endpoints[index], &mailbox->local, card, &size);
}

/* Opens this end over the cheapest transport that has not failed the pair. */
static int open_end(struct rd_mailbox *mailbox, int peer)
{
	struct rd_mailbox_peer *at = &mailbox->peers[peer];
	int index = choose(mailbox, peer, at->barred), err;
	struct rd_endpoint *endpoint;
	struct rd_card card;

	at->link = NULL;
	at->failed = at->reported = false;
	if (index < 0)
		return rd_fail(RONDO_UNREACHABLE, "neither shm nor tcp is left");
	at->endpoint = index;
	err = make_endpoint(mailbox, index);
	if (err)
		return err;
	endpoint = mailbox->endpoints[index];
	rd_route_card(mailbox->comm, peer, endpoint->transport, &card);
	err = endpoint->transport->open(endpoint, peer, 0, card.bytes, card.size, &at->link);
	mailbox->unready |= !err;
	return err;
}

/* The pair's present transport has failed. Where another is left, the coordinator sends both ranks
   there, and returns 0. */
static int fail_pair(struct rd_mailbox *mailbox, int peer, int error, const char *why)
{
	const struct rondo_comm *comm = mailbox->comm;
	struct rd_mailbox_peer *at = &mailbox->peers[peer];
	struct rd_link_failure failure = {
		.low = peer < comm->rank ? peer : comm->rank,
		.high = peer < comm->rank ? comm->rank : peer,
		.by = comm->rank,
		.tagged = true,
	};

	if (choose(mailbox, peer, at->barred | 1u << at->endpoint) < 0)
		return rd_fail(error, "rank %d opens a link of tagged messages to rank %d: %s",
			comm->rank, peer, why);
	at->reported = mailbox->unready = true;
	snprintf(failure.transport, sizeof(failure.transport), "%s",
		comm->endpoints[at->endpoint]->transport->name);
	snprintf(failure.reason, sizeof(failure.reason), "%s", why);
	return rd_control_link_failed(comm->control, &failure);
}

static int open_link(struct rd_mailbox *mailbox, int peer)
{
	char why[RD_REASON_SIZE];
	int err = open_end(mailbox, peer);

	if (!err)
		return 0;
	snprintf(why, sizeof(why), "%s", rondo_last_error());
	return fail_pair(mailbox, peer, err, why);
}

static int open_first(struct rd_mailbox *mailbox, int peer)
{
	int err = open_link(mailbox, peer);

	if (err)
		return err;
	mailbox->peers[peer].listed = true;
	mailbox->linked[mailbox->linked_count++] = peer;
	return 0;
}

int rd_mailbox_open(struct rd_mailbox *mailbox, int peer)
{
	struct rd_mailbox_peer *at = &mailbox->peers[peer];
	int listed = peer | RD_OPEN_TAGGED, err;

	if (at->asked)
		return 0;
	err = at->listed ? 0 : open_first(mailbox, peer);
	if (err)
		return err;
	at->asked = true;
	return rd_control_open(mailbox->comm->control, &listed, 1);
}

/* ---- News of other ranks -------------------------------------------------------------------- */

/* No link comes about, and the peer may wait for one: the error, whose reason is recorded, ends the
   comm. */
static void give_up(struct rd_mailbox *mailbox, int peer, int error)
{
	mailbox->peers[peer].reported = true;
	rd_control_report_soon(mailbox->comm->control, error, peer, rondo_last_error());
}

/* The pair's transport has failed, here or there: takes the next one. A link that was ready here
   may have messages that do not arrive. */
static int move_pair(
	struct rd_mailbox *mailbox, int peer, int index, const struct rd_link_failure *failure)
{
	const struct rondo_comm *comm = mailbox->comm;
	struct rd_mailbox_peer *at = &mailbox->peers[peer];
	int next;

	at->barred |= 1u << index;
	next = choose(mailbox, peer, at->barred);
	if (next >= 0)
		rd_comm_log_fallback(comm, failure, comm->endpoints[next]->transport);
	if (!at->listed || at->endpoint != index)
		return 0;
	if (at->link && at->link->ready)
		return rd_fail(RONDO_BROKEN,
			"rank %d: the link of tagged messages to rank %d over %s: %s", comm->rank,
			peer, failure->transport, failure->reason);
	return open_link(mailbox, peer);
}

static void take_fallback(struct rd_mailbox *mailbox, const struct rd_link_failure *failure)
{
	const struct rondo_comm *comm = mailbox->comm;
	int peer = failure->low == comm->rank ? failure->high : failure->low, index = 0, err;

	if (failure->transport[0] == '\0') {
		mailbox->peers[peer].left_ms = rd_clock_ms();
		return;
	}
	while (index < comm->endpoint_count &&
		strcmp(comm->endpoints[index]->transport->name, failure->transport) != 0)
		index++;
	if (index == comm->endpoint_count || !failure->tagged)
		return;
	err = move_pair(mailbox, peer, index, failure);
	if (err)
		give_up(mailbox, peer, err);
}

static void take_opened(struct rd_mailbox *mailbox, int listed)
{
	int peer = rd_open_rank(listed), err = 0;

	if (listed & RD_OPEN_TAGGED && !mailbox->peers[peer].listed)
		err = open_first(mailbox, peer);
	if (err)
		give_up(mailbox, peer, err);
}

static bool take_news(struct rd_mailbox *mailbox)
{
	struct rd_control *control = mailbox->comm->control;
	int before = mailbox->fallbacks + mailbox->opened, listed;
	struct rd_link_failure failure;

	while (rd_control_fallback(control, mailbox->fallbacks, &failure)) {
		mailbox->fallbacks++;
		take_fallback(mailbox, &failure);
	}
	while (rd_control_opened(control, mailbox->opened, &listed)) {
		mailbox->opened++;
		take_opened(mailbox, listed);
	}
	return mailbox->fallbacks + mailbox->opened > before;
}

/* ---- Progress ------------------------------------------------------------------------------- */

/* Without rank 0 a peer opens its end only for a message of its own. The first look without it
   sets the bound: what has come meanwhile is taken before the next. */
static bool is_overdue(struct rd_mailbox *mailbox, int peer)
{
	const struct rondo_comm *comm = mailbox->comm;
	struct rd_mailbox_peer *at = &mailbox->peers[peer];
	int64_t now_ms = rd_clock_ms();

	if (!rd_control_is_unattended(comm->control) || !rd_messages_need(mailbox, peer)) {
		at->until_ms = 0;
		return false;
	}
	if (!at->until_ms)
		at->until_ms = now_ms + rd_comm_timeout_ms(comm);
	return now_ms >= at->until_ms;
}

/* The peer has left, and the rest of its link has had its time. */
static bool is_gone(const struct rd_mailbox_peer *at)
{
	return at->left_ms && rd_clock_ms() >= at->left_ms + LEFT_MS;
}

/* The end of a peer is no failure of the transport. A link that it had opened may still become
   ready, with a message. */
static void look_at_opening(struct rd_mailbox *mailbox, int peer)
{
	const struct rondo_comm *comm = mailbox->comm;
	struct rd_mailbox_peer *at = &mailbox->peers[peer];
	char duration[RD_DURATION_SIZE];
	int err = 0;

	if (at->link->error == RONDO_BROKEN || (at->link->error && at->left_ms) || is_gone(at))
		at->failed = true;
	else if (at->link->error)
		err = fail_pair(mailbox, peer, at->link->error, at->link->reason);
	else if (is_overdue(mailbox, peer))
		err = rd_fail(RONDO_UNREACHABLE,
			"rank %d has no link of tagged messages to rank %d after %s: rank 0, which "
			"has left, cannot have it opened",
			comm->rank, peer, rd_duration(duration, rd_comm_timeout_ms(comm)));
	if (err)
		give_up(mailbox, peer, err);
}

/* Whether some are still to come, or their fallback is. */
static bool look_at_openings(struct rd_mailbox *mailbox)
{
	bool unready = false;

	for (int i = 0; i < mailbox->linked_count; i++) {
		struct rd_mailbox_peer *at = &mailbox->peers[mailbox->linked[i]];

		if (at->link && !at->link->ready && !at->failed && !at->reported)
			look_at_opening(mailbox, mailbox->linked[i]);
		unready |= !(at->link && at->link->ready) && !at->failed;
	}
	return unready;
}

/* Each link may end now. */
static void note_leavers(struct rd_mailbox *mailbox)
{
	for (int i = 0; i < mailbox->linked_count; i++) {
		struct rd_mailbox_peer *at = &mailbox->peers[mailbox->linked[i]];

		if (!at->left_ms)
			at->left_ms = rd_clock_ms();
	}
}

bool rd_mailbox_advance(struct rd_mailbox *mailbox)
{
	struct rondo_comm *comm = mailbox->comm;
	bool moved = false;

	if (comm->control) {
		/* News that come meanwhile may be of a link. */
		mailbox->deserted = rd_control_others_left(comm->control);
		moved = take_news(mailbox);
	}
	if (mailbox->deserted)
		note_leavers(mailbox);
	for (int i = 0; i < comm->endpoint_count; i++)
		if (mailbox->endpoints[i])
			moved |= mailbox->endpoints[i]->transport->advance(mailbox->endpoints[i]);
	if (mailbox->unready)
		mailbox->unready = look_at_openings(mailbox);
	return moved;
}

bool rd_mailbox_is_broken(struct rd_mailbox *mailbox, int peer, const char **reason)
{
	const struct rd_mailbox_peer *at = &mailbox->peers[peer];

	*reason = "it could not be opened";
	if (at->link && at->link->error && (at->link->ready || at->failed)) {
		*reason = at->link->reason;
		return true;
	}
	if (at->failed)
		return true;
	*reason = "it has left";
	return (!at->link || !at->link->ready) && is_gone(at);
}

void rd_mailbox_arm(struct rd_mailbox *mailbox)
{
	for (int i = 0; i < mailbox->comm->endpoint_count; i++)
		if (mailbox->endpoints[i] && mailbox->endpoints[i]->transport->arm)
			mailbox->endpoints[i]->transport->arm(mailbox->endpoints[i]);
}

void rd_mailbox_disarm(struct rd_mailbox *mailbox)
{
	for (int i = 0; i < mailbox->comm->endpoint_count; i++)
		if (mailbox->endpoints[i] && mailbox->endpoints[i]->transport->disarm)
			mailbox->endpoints[i]->transport->disarm(mailbox->endpoints[i]);
}

void rd_mailbox_wake(const struct rd_mailbox *mailbox)
{
	eventfd_write(mailbox->comm->shared->wake_fd, 1);
}

/* ---- The control thread --------------------------------------------------------------------- */

/* Whether a peer has opened its end of such a link, before there is a mailbox. */
static bool is_needed(struct rondo_comm *comm)
{
	int listed = 0;

	for (int i = 0; rd_control_opened(comm->control, i, &listed); i++)
		if (listed & RD_OPEN_TAGGED)
			return true;
	return false;
}

enum rd_links_state rd_mailbox_serve(struct rondo_comm *comm, int *fd)
{
	struct rd_mailbox *mailbox = atomic_load(&comm->mailbox);
	bool moved = false, unready, sleeps;

	if (atomic_load(&comm->failed))
		return RD_LINKS_IDLE;
	if (!mailbox && atomic_load(&comm->complete) && is_needed(comm))
		mailbox = rd_mailbox_get(comm);
	if (!mailbox)
		return RD_LINKS_IDLE;
	rd_mailbox_enter(mailbox);
	while (!mailbox->over && rd_mailbox_advance(mailbox))
		moved = true;
	unready = mailbox->unready && !mailbox->over;
	sleeps = mailbox->sleeps;
	*fd = mailbox->local.epoll_fd >= 0 ? mailbox->local.epoll_fd : comm->shared->control_fd;
	rd_mailbox_exit(mailbox);
	if (moved && sleeps)
		rd_mailbox_wake(mailbox);
	return unready ? RD_LINKS_WAIT : RD_LINKS_IDLE;
}

/* ---- Ends ----------------------------------------------------------------------------------- */

static void free_mailbox(struct rd_mailbox *mailbox)
{
	struct rd_unexpected *arrival;

	while ((arrival = mailbox->unexpected)) {
		mailbox->unexpected = arrival->next;
		free(arrival);
	}
	rd_settings_forget(&mailbox->settings);
	free(mailbox->driver);
	free(mailbox->peers);
	free(mailbox->linked);
	free(mailbox);
}

void rd_mailbox_close(struct rondo_comm *comm)
{
	struct rd_mailbox *mailbox = atomic_exchange(&comm->mailbox, NULL);

	if (!mailbox)
		return;
	for (int i = 0; i < comm->endpoint_count; i++)
		if (mailbox->endpoints[i])
			mailbox->endpoints[i]->transport->close(mailbox->endpoints[i]);
	if (mailbox->local.epoll_fd >= 0)
		rd_shared_close(comm->shared, mailbox->local.epoll_fd);
	pthread_mutex_destroy(&mailbox->lock);
	free_mailbox(mailbox);
}

void rd_mailbox_abandon(struct rondo_comm *comm)
{
	struct rd_mailbox *mailbox = atomic_load(&comm->mailbox);

	/* The rule of base/fork.h. */
	if (!mailbox || pthread_mutex_trylock(&mailbox->lock))
		return;
	for (int i = 0; i < comm->endpoint_count; i++)
		if (mailbox->endpoints[i] && mailbox->endpoints[i]->transport->abandon)
			mailbox->endpoints[i]->transport->abandon(mailbox->endpoints[i]);
	free_mailbox(mailbox);
}
