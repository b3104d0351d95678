#include "comm/mailbox.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>

#include "base/clock.h"
#include "base/error.h"
#include "base/hash.h"
#include "bootstrap/rendezvous.h"
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
	mailbox->settings = comm->settings;
	mailbox->settings.channels = 1;
	mailbox->settings.piece_size = comm->piece_size;
	mailbox->local = comm->local;
	mailbox->local.settings = &mailbox->settings;
	mailbox->local.epoll_fd = -1;
	mailbox->local.comm_id = rd_hash(RD_HASH_INIT, &comm->local.comm_id, sizeof(uint64_t));
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

static int open_end(struct rd_mailbox *mailbox, int peer)
{
	struct rd_mailbox_peer *at = &mailbox->peers[peer];
	int index = choose(mailbox, peer, at->barred), err;
	struct rd_endpoint *endpoint;
	struct rd_card card;

	if (index < 0)
		return rd_fail(RONDO_UNREACHABLE,
			"rank %d reaches rank %d over neither shm nor tcp, for tagged messages",
			mailbox->comm->rank, peer);
	err = make_endpoint(mailbox, index);
	if (err)
		return err;
	endpoint = mailbox->endpoints[index];
	rd_route_card(mailbox->comm, peer, endpoint->transport, &card);
	err = endpoint->transport->open(endpoint, peer, 0, card.bytes, card.size, &at->link);
	if (err)
		return err;
	at->endpoint = index;
	at->failed = false;
	mailbox->unready = true;
	return 0;
}

static int open_first(struct rd_mailbox *mailbox, int peer)
{
	int err = open_end(mailbox, peer);

	if (!err)
		mailbox->linked[mailbox->linked_count++] = peer;
	return err;
}

int rd_mailbox_open(struct rd_mailbox *mailbox, int peer)
{
	struct rd_mailbox_peer *at = &mailbox->peers[peer];
	int listed = peer | RD_OPEN_TAGGED, err;

	if (at->asked)
		return 0;
	err = at->link ? 0 : open_first(mailbox, peer);
	if (err)
		return err;
	at->asked = true;
	return rd_control_open(mailbox->comm->control, &listed, 1);
}

/* ---- News of other ranks -------------------------------------------------------------------- */

/* The pair's transport has failed, here or there: goes on over the next one. */
static void take_fallback(struct rd_mailbox *mailbox, const struct rd_link_failure *failure)
{
	const struct rondo_comm *comm = mailbox->comm;
	struct rd_mailbox_peer *at =
		&mailbox->peers[failure->low == comm->rank ? failure->high : failure->low];
	int peer = (int)(at - mailbox->peers), index = 0;

	if (failure->transport[0] == '\0') {
		at->left_ms = rd_clock_ms();
		return;
	}
	while (index < comm->endpoint_count &&
		strcmp(comm->endpoints[index]->transport->name, failure->transport) != 0)
		index++;
	if (index == comm->endpoint_count)
		return;
	at->barred |= 1u << index;
	if (at->link && !at->link->ready && at->endpoint == index && open_end(mailbox, peer))
		at->failed = true;
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
		int peer = rd_open_rank(listed);

		mailbox->opened++;
		if (listed & RD_OPEN_TAGGED && !mailbox->peers[peer].link &&
			open_first(mailbox, peer))
			mailbox->peers[peer].failed = true;
	}
	return mailbox->fallbacks + mailbox->opened > before;
}

/* ---- Progress ------------------------------------------------------------------------------- */

/* Where another transport is left, the coordinator sends both ranks there. The end of a peer is no
   failure of the transport. */
static void fail_opening(struct rd_mailbox *mailbox, int peer)
{
	const struct rondo_comm *comm = mailbox->comm;
	struct rd_mailbox_peer *at = &mailbox->peers[peer];
	struct rd_link_failure failure = {
		.low = peer < comm->rank ? peer : comm->rank,
		.high = peer < comm->rank ? comm->rank : peer,
		.by = comm->rank,
	};

	at->failed = true;
	if (at->link->error == RONDO_BROKEN || at->left_ms || !at->asked ||
		choose(mailbox, peer, at->barred | 1u << at->endpoint) < 0)
		return;
	snprintf(failure.transport, sizeof(failure.transport), "%s", at->link->transport->name);
	snprintf(failure.reason, sizeof(failure.reason), "%s", at->link->reason);
	at->failed = rd_control_link_failed(comm->control, &failure) != 0;
}

static bool look_at_openings(struct rd_mailbox *mailbox)
{
	bool unready = false;

	for (int i = 0; i < mailbox->linked_count; i++) {
		struct rd_mailbox_peer *at = &mailbox->peers[mailbox->linked[i]];

		if (!at->link || at->link->ready || at->failed)
			continue;
		if (at->link->error)
			fail_opening(mailbox, mailbox->linked[i]);
		else
			unready = true;
	}
	return unready;
}

bool rd_mailbox_advance(struct rd_mailbox *mailbox)
{
	struct rondo_comm *comm = mailbox->comm;
	bool moved = comm->control && take_news(mailbox);

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
	return at->left_ms && (!at->link || !at->link->ready) &&
	       rd_clock_ms() >= at->left_ms + LEFT_MS;
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

	if (!mailbox)
		return;
	for (int i = 0; i < comm->endpoint_count; i++)
		if (mailbox->endpoints[i] && mailbox->endpoints[i]->transport->abandon)
			mailbox->endpoints[i]->transport->abandon(mailbox->endpoints[i]);
	free_mailbox(mailbox);
}
