/*
 * shm: ranks of one user on one host, processes or threads, over memory that both map.
 *
 * Memory. Each pair of ranks shares one memfd. The higher rank creates it, seals it against
 * resizing, and passes it over a Unix socket. It holds one FIFO a direction and channel
 * (fifo.h). Each channel starts on a page: pages that no message has touched use no memory.
 *
 * Regions. offer() passes the memfd of a region with an id over the same connection. That memfd is
 * sealed, too. The peer maps it when it next reads the connection. map() reads all of the
 * connection before it returns NULL, so a later message cannot overtake an offer.
 *
 * Handshake. The card holds the name of an abstract Unix socket, which ends with its last
 * descriptor. The higher rank connects and sends a greeting, with the memfd and its eventfd. The
 * lower rank checks uid, comm, rank and sizes, and answers with its eventfd. Both check the uid of
 * the other's process, which the kernel tells.
 *
 * Deaths. The connection stays open: its end reports a death. close() sends a goodbye first. Memory
 * lives as long as it is mapped, so messages of a dead rank are still read; then the link fails.
 *
 * Files, lowest first:
 *   shm_fifo       links, and the FIFOs through which their messages pass
 *   shm_socket     packets with descriptors
 *   shm_card       the card and the greeting
 *   shm_region     a peer's regions, mapped here
 *   shm_pair       the connection to one peer, its memory and links
 *   shm_backlog    the listener, and connections without a pair
 *   shm            the endpoint
 */
#include <linux/membarrier.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/error.h"
#include "base/descriptor.h"
#include "base/settings.h"
#include "topo/place.h"
#include "transports/event_source.h"
#include "transports/shared.h"
#include "transports/shm/card.h"
#include "transports/shm/fifo.h"
#include "transports/shm/pair.h"
#include "transports/shm/region.h"
#include "transports/shm/socket.h"
#include "transports/shm/backlog.h"
#include "transports/transports.h"

struct endpoint {
	struct rd_shm_endpoint shared;
	unsigned calls; /* of advance() */
	struct rd_shm_backlog backlog;
};

/* ---- Sleepers -------------------------------------------------------------------------------- */

static int driver_watch(const struct rd_local *local, int fd)
{
	if (rd_event_watch(local->epoll_fd, EPOLL_CTL_ADD, fd, EPOLLIN | EPOLLET, NULL))
		return rd_fail_errno("epoll_ctl");
	return 0;
}

/* Has the endpoint wake sleepers. */
static int watch(struct rd_shm_endpoint *endpoint)
{
	const struct rd_local *local = endpoint->local;
	int err;

	if (local->shared)
		return rd_shared_watch(local->shared, endpoint->epoll_fd);
	err = driver_watch(local, endpoint->wake_fd);
	return err ? err : driver_watch(local, endpoint->epoll_fd);
}

/* Ends that. */
static void unwatch(struct rd_shm_endpoint *endpoint)
{
	struct rd_shared *shared = endpoint->local->shared;

	if (shared && endpoint->epoll_fd >= 0)
		rd_shared_unwatch(shared, endpoint->epoll_fd);
	if (!shared) /* explicitly: peers hold the same eventfd, so closing it does not remove it */
		rd_event_close(endpoint->local->epoll_fd, &endpoint->wake_fd);
	rd_shm_fd_close(&endpoint->epoll_fd);
}

/* ---- Closing --------------------------------------------------------------------------------- */

static void shm_close(struct rd_endpoint *base)
{
	struct endpoint *endpoint = (struct endpoint *)base;
	struct rd_shm_endpoint *shared = &endpoint->shared;

	while (shared->pairs) {
		struct rd_shm_pair *pair = shared->pairs;

		shared->pairs = pair->next;
		rd_shm_pair_destroy(pair);
	}
	rd_shm_backlog_finish(&endpoint->backlog);
	unwatch(shared);
	free(endpoint);
}

static void shm_abandon(struct rd_endpoint *base)
{
	struct endpoint *endpoint = (struct endpoint *)base;
	struct rd_shm_endpoint *shared = &endpoint->shared;

	while (shared->pairs) {
		struct rd_shm_pair *pair = shared->pairs;

		shared->pairs = pair->next;
		rd_shm_pair_abandon(pair);
	}
	rd_shm_backlog_abandon(&endpoint->backlog);
	if (!shared->local->shared)
		rd_shm_fd_close(&shared->wake_fd);
	rd_shm_fd_close(&shared->epoll_fd);
	free(endpoint);
}

/* ---- Listening, and opening links ------------------------------------------------------------ */

static int shm_reach(const struct rd_place *here, const struct rd_place *there)
{
	return rd_place_same_host(here, there) && here->uid == there->uid ? 100 : -1;
}

static int endpoint_start(struct rd_shm_endpoint *endpoint, struct rd_shm_backlog *backlog)
{
	int err = rd_shm_card_make(&endpoint->card);

	if (err)
		return err;
	endpoint->barriers =
		syscall(SYS_membarrier, MEMBARRIER_CMD_REGISTER_GLOBAL_EXPEDITED, 0, 0) == 0;
	endpoint->wake_fd = endpoint->local->shared
				    ? endpoint->local->shared->wake_fd
				    : rd_above_stderr(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
	endpoint->epoll_fd = rd_above_stderr(epoll_create1(EPOLL_CLOEXEC));
	if (endpoint->wake_fd < 0 || endpoint->epoll_fd < 0)
		return rd_fail_errno("cannot make an eventfd and an epoll");
	err = rd_shm_backlog_listen(backlog);
	return err ? err : watch(endpoint);
}

static int shm_listen(struct rd_endpoint **result, const struct rd_local *local,
	unsigned char card[RD_CARD_MAX], size_t *card_size)
{
	struct endpoint *endpoint = calloc(1, sizeof(*endpoint));
	struct rd_shm_endpoint *shared;
	int err;

	if (!endpoint)
		return rd_fail(RONDO_MEMORY, "no memory for a shm endpoint");
	shared = &endpoint->shared;
	shared->base.transport = &rd_transport_shm;
	shared->base.message_max = local->settings->piece_size;
	shared->local = local;
	shared->wake_fd = shared->epoll_fd = -1;
	rd_shm_backlog_init(&endpoint->backlog, shared);
	err = endpoint_start(shared, &endpoint->backlog);
	if (err) {
		shm_close(&shared->base);
		return err;
	}
	memcpy(card, &shared->card, sizeof(shared->card));
	*card_size = sizeof(shared->card);
	*result = &shared->base;
	return 0;
}

static int open_check(const struct rd_shm_endpoint *endpoint, int peer, int channel)
{
	const struct rd_local *local = endpoint->local;

	if (peer < 0 || peer >= local->size || peer == local->rank)
		return rd_fail(
			RONDO_INVALID, "shm does not join rank %d with rank %d", local->rank, peer);
	if (channel < 0 || channel >= local->settings->channels)
		return rd_fail(
			RONDO_INVALID, "channel %d of %d", channel, local->settings->channels);
	return 0;
}

static int shm_open_link(struct rd_endpoint *base, int peer, int channel,
	const unsigned char *bytes, size_t size, struct rd_link **out)
{
	struct rd_shm_endpoint *endpoint = (struct rd_shm_endpoint *)base;
	struct rd_shm_card card;
	int err = open_check(endpoint, peer, channel);

	if (!err)
		err = rd_shm_card_read(&card, bytes, size);
	if (err)
		return err;
	struct rd_shm_pair *pair = rd_shm_pair_find(endpoint, peer);

	if (!pair)
		err = rd_shm_pair_create(endpoint, peer, &card, &pair);
	if (err)
		return err;
	if (pair->links[channel])
		return rd_fail(RONDO_INVALID, "channel %d to rank %d is open", channel, peer);
	err = rd_shm_pair_add_link(pair, channel);
	if (err)
		return err;
	*out = &pair->links[channel]->base;
	return 0;
}

/* ---- Progress -------------------------------------------------------------------------------- */

/* Connects pairs, and matches connections that came before their pair was created. */
static void endpoint_connect(struct endpoint *endpoint)
{
	for (struct rd_shm_pair *pair = endpoint->shared.pairs; pair; pair = pair->next)
		if (pair->state == RD_SHM_PAIR_CONNECTING)
			rd_shm_pair_connect(pair);
	rd_shm_backlog_match(&endpoint->backlog);
}

/* The most rounds of events that one poll handles, so that strangers cannot delay it. */
#define POLL_ROUNDS 64

/* True: a pair has moved. Traffic of strangers does not count: a waiting call takes true for a sign
   of life. */
static bool endpoint_poll(struct rd_shm_endpoint *endpoint)
{
	struct epoll_event events[16];
	bool moved = false, handled = true;

	for (int round = 0; handled && round < POLL_ROUNDS; round++) {
		int count = epoll_wait(endpoint->epoll_fd, events, 16, 0);

		handled = false;
		for (int i = 0; i < count; i++) {
			const struct rd_event_source *source = events[i].data.ptr;

			if (!source->handle(source->owner))
				continue;
			handled = true;
			moved |= source->handle == rd_shm_pair_handle;
		}
	}
	/* When rounds ran out, events are left. */
	endpoint->poll_due = handled;
	return moved;
}

static bool endpoint_settle(struct rd_shm_endpoint *endpoint)
{
	int channels = endpoint->local->settings->channels;
	bool moved = false;

	for (struct rd_shm_pair *pair = endpoint->pairs; pair; pair = pair->next)
		for (int channel = 0; channel < channels; channel++)
			if (pair->links[channel])
				moved |= rd_shm_link_settle(pair->links[channel]);
	return moved;
}

/*
 * Makes system calls only while links are not ready, after a sleep, and once in 1024 calls. The
 * last detects deaths of peers outside of any wait.
 */
static bool shm_advance(struct rd_endpoint *base)
{
	struct endpoint *endpoint = (struct endpoint *)base;
	struct rd_shm_endpoint *shared = &endpoint->shared;

	/* Before the first open() no peer is expected, and comm_id is not set. */
	if (!shared->pairs)
		return false;
	bool moved = shared->posting > 0 && endpoint_settle(shared);

	if (!shared->unready && !shared->poll_due && ++endpoint->calls % 1024 != 0)
		return moved;
	int unready = shared->unready;

	if (unready)
		endpoint_connect(endpoint);
	moved |= endpoint_poll(shared);
	return moved || shared->unready != unready;
}

static void shm_arm(struct rd_endpoint *base)
{
	struct rd_shm_endpoint *endpoint = (struct rd_shm_endpoint *)base;
	int channels = endpoint->local->settings->channels;
	const struct rd_shm_link *flagged = NULL;

	/* A link that is found empty or full after this raises its flags by itself. */
	endpoint->armed = true;
	for (struct rd_shm_pair *pair = endpoint->pairs; pair; pair = pair->next)
		for (int channel = 0; channel < channels && pair->state == RD_SHM_PAIR_OPEN;
			channel++) {
			struct rd_shm_link *link = pair->links[channel];

			if (link && rd_shm_link_arm(link) && !pair->common.fenced)
				flagged = link;
		}
	/* One barrier serves all links. */
	if (flagged)
		rd_shm_link_barrier(flagged);
}

static void shm_disarm(struct rd_endpoint *base)
{
	struct rd_shm_endpoint *endpoint = (struct rd_shm_endpoint *)base;
	int channels = endpoint->local->settings->channels;

	endpoint->armed = false;
	endpoint->poll_due = true;
	for (struct rd_shm_pair *pair = endpoint->pairs; pair; pair = pair->next)
		for (int channel = 0; channel < channels; channel++)
			if (pair->links[channel])
				rd_shm_link_disarm(pair->links[channel]);
}

/* ---- Regions --------------------------------------------------------------------------------- */

static bool shm_offer(struct rd_endpoint *base, uint64_t id, int fd, size_t size)
{
	struct rd_shm_endpoint *endpoint = (struct rd_shm_endpoint *)base;
	bool sent = true;

	for (struct rd_shm_pair *pair = endpoint->pairs; pair; pair = pair->next)
		if (pair->state == RD_SHM_PAIR_OPEN)
			sent &= rd_shm_region_offer(pair->fd, id, fd, size);
	return sent;
}

static void shm_withdraw(struct rd_endpoint *base, uint64_t id)
{
	struct rd_shm_endpoint *endpoint = (struct rd_shm_endpoint *)base;

	/* A peer that never reads the notice keeps the memory until it leaves. */
	for (struct rd_shm_pair *pair = endpoint->pairs; pair; pair = pair->next)
		if (pair->state == RD_SHM_PAIR_OPEN)
			rd_shm_region_withdraw(pair->fd, id);
}

static struct rd_shm_pair *pair_of(struct rd_link *base)
{
	const struct rd_shm_link *link = (const struct rd_shm_link *)base;

	return (struct rd_shm_pair *)((char *)link->peer - offsetof(struct rd_shm_pair, common));
}

static void *shm_map(struct rd_link *base, uint64_t id, size_t *size)
{
	struct rd_shm_pair *pair = pair_of(base);
	const struct rd_shm_region *region = rd_shm_region_find(pair->regions, id);

	while (!region && pair->state == RD_SHM_PAIR_OPEN && rd_shm_pair_handle(pair))
		region = rd_shm_region_find(pair->regions, id);
	if (!region || !region->base)
		return NULL;
	*size = region->size;
	return region->base;
}

static void shm_trim(struct rd_link *base)
{
	rd_shm_link_trim((struct rd_shm_link *)base);
}

/* ---- The transport --------------------------------------------------------------------------- */

const struct rd_transport rd_transport_shm = {
	.abi = RD_TRANSPORT_ABI,
	.name = "shm",
	.reach = shm_reach,
	.listen = shm_listen,
	.open = shm_open_link,
	.advance = shm_advance,
	.arm = shm_arm,
	.disarm = shm_disarm,
	.trim = shm_trim,
	.offer = shm_offer,
	.withdraw = shm_withdraw,
	.map = shm_map,
	.close = shm_close,
	.abandon = shm_abandon,
	.shares = true,
};
