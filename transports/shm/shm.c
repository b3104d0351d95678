/*
 * shm: ranks of one user on one host, processes or threads, over memory that both map.
 *
 * Memory. Each pair of ranks of a comm shares one memfd. The higher rank creates it, seals it
 * against resizing, and passes it over a Unix socket. It holds one FIFO a direction and channel
 * (fifo.h). Each channel starts on a page: pages that no message has touched use no memory.
 *
 * Stations. The comms of a job share one listening socket, one eventfd, and one connection to each
 * rank that they have in common: a further comm needs no descriptor. Packets name their comm.
 *
 * Handshake. The card holds the name of an abstract Unix socket, which ends with its last
 * descriptor, and a number: the rank in the job's first comm. The station with the higher number
 * connects, and sends a hello with its eventfd; the other answers with its own. Both check the uid
 * of the other's process, which the kernel tells. Over the connection, the higher rank of each comm
 * sends a greeting with the memfd. The lower rank checks comm, rank and sizes, and answers. Either
 * may come before its comm's pair is there on the other side: it waits for that.
 *
 * Regions. offer() passes the memfd of a region with an id over the connection, for one comm. That
 * memfd is sealed, too. The peer maps it when it next reads the connection. map() reads all of the
 * connection before it returns NULL, so a later message cannot overtake an offer.
 *
 * Deaths. The connection stays open: its end reports a death, to all comms with that rank. close()
 * sends the end of one comm. Memory lives as long as it is mapped, so messages of a dead rank are
 * still read; then the link fails.
 *
 * Threads. Any thread that waits for one of the comms reads all connections, under the station's
 * lock, which no call takes unless it has slept or opens links. Each pair's thread takes what has
 * come for it.
 *
 * Files, lowest first:
 *   shm_fifo       links, and the FIFOs through which their messages pass
 *   shm_socket     packets with descriptors
 *   shm_region     a peer's regions, mapped here
 *   shm_card       the card and the packets
 *   shm_queue      packets that wait
 *   shm_connection the connection to one rank, in all comms
 *   shm_backlog    the listener, and connections without a hello
 *   shm_station    all of these
 *   shm_pair       a peer in one comm, its memory and links
 *   shm            the endpoint
 */
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "topo/place.h"
#include "transports/shm/pair.h"
#include "transports/shm/station.h"
#include "transports/transports.h"

struct endpoint {
	struct rd_shm_endpoint shared;
	unsigned calls; /* of advance() */
};

/* ---- Closing --------------------------------------------------------------------------------- */

static void shm_close(struct rd_endpoint *base)
{
	struct rd_shm_endpoint *endpoint = (struct rd_shm_endpoint *)base;
	struct rd_shm_station *station = endpoint->station;

	rd_shm_station_lock(station, &endpoint->news);
	while (endpoint->pairs) {
		struct rd_shm_pair *pair = endpoint->pairs;

		endpoint->pairs = pair->next;
		rd_shm_pair_destroy(pair);
	}
	rd_shm_station_refuse(station, endpoint->local->comm_id);
	rd_shm_station_unlock(station);
	rd_shm_station_leave(station, endpoint->local);
	free(endpoint);
}

static void shm_abandon(struct rd_endpoint *base)
{
	struct rd_shm_endpoint *endpoint = (struct rd_shm_endpoint *)base;

	/* The rule of base/fork.h. */
	if (pthread_mutex_trylock(&endpoint->station->lock))
		return;
	while (endpoint->pairs) {
		struct rd_shm_pair *pair = endpoint->pairs;

		endpoint->pairs = pair->next;
		rd_shm_pair_abandon(pair);
	}
	pthread_mutex_unlock(&endpoint->station->lock);
	rd_shm_station_abandon(endpoint->station, endpoint->local);
	free(endpoint);
}

/* ---- Listening, and opening links ------------------------------------------------------------ */

static int shm_reach(const struct rd_place *here, const struct rd_place *there)
{
	return rd_place_same_host(here, there) && here->uid == there->uid ? 100 : -1;
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
	err = rd_shm_station_join(&shared->station, local);
	if (err) {
		free(endpoint);
		return err;
	}
	*card_size = sizeof(shared->station->card);
	memcpy(card, &shared->station->card, *card_size);
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

/* Under the station's lock. */
static int find_or_create(struct rd_shm_endpoint *endpoint, int peer,
	const struct rd_shm_card *card, struct rd_shm_pair **pair)
{
	struct rd_shm_connection *connection;
	int err;

	*pair = rd_shm_pair_find(endpoint, peer);
	if (*pair)
		return 0;
	err = rd_shm_connection_get(&connection, endpoint->station, card);
	if (err)
		return err;
	if (connection->state == RD_SHM_CONNECTING)
		rd_shm_connection_connect(connection);
	return rd_shm_pair_create(endpoint, peer, connection, pair);
}

/* Under the station's lock. */
static int add_link(struct rd_shm_endpoint *endpoint, int peer, int channel,
	const struct rd_shm_card *card, struct rd_link **out)
{
	struct rd_shm_pair *pair;
	int err = find_or_create(endpoint, peer, card, &pair);

	if (err)
		return err;
	if (pair->links[channel])
		return rd_fail(RONDO_INVALID, "channel %d to rank %d is open", channel, peer);
	err = rd_shm_pair_add_link(pair, channel);
	if (!err)
		*out = &pair->links[channel]->base;
	return err;
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
	rd_shm_station_lock(endpoint->station, &endpoint->news);
	err = add_link(endpoint, peer, channel, &card, out);
	rd_shm_station_unlock(endpoint->station);
	return err;
}

/* ---- Progress -------------------------------------------------------------------------------- */

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

/* True: a pair has moved. Traffic of strangers and of other comms does not count: a waiting call
   takes true for a sign of life. */
static bool endpoint_poll(struct rd_shm_endpoint *endpoint)
{
	struct rd_shm_station *station = endpoint->station;
	bool moved = false, more;

	rd_shm_station_lock(station, &endpoint->news);
	if (endpoint->unready)
		rd_shm_station_connect(station);
	more = rd_shm_station_poll(station);
	if (atomic_exchange(&endpoint->news, false) || endpoint->unready)
		for (struct rd_shm_pair *pair = endpoint->pairs; pair; pair = pair->next)
			while (rd_shm_pair_handle(pair))
				moved = true;
	if (more)
		atomic_store(&endpoint->news, true);
	rd_shm_station_unlock(station);
	return moved;
}

/*
 * Makes system calls only while links are not ready, after a sleep, when packets have come, and
 * once in 1024 calls. The last detects deaths of peers outside of any wait.
 */
static bool shm_advance(struct rd_endpoint *base)
{
	struct endpoint *endpoint = (struct endpoint *)base;
	struct rd_shm_endpoint *shared = &endpoint->shared;

	/* Before the first open() no peer is expected, and comm_id is not set. */
	if (!shared->pairs)
		return false;
	bool moved = shared->posting > 0 && endpoint_settle(shared);

	if (!shared->unready && !atomic_load_explicit(&shared->news, memory_order_relaxed) &&
		++endpoint->calls % 1024 != 0)
		return moved;
	return endpoint_poll(shared) || moved;
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
	atomic_store(&endpoint->news, true);
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

	rd_shm_station_lock(endpoint->station, &endpoint->news);
	for (struct rd_shm_pair *pair = endpoint->pairs; pair; pair = pair->next)
		if (pair->state == RD_SHM_PAIR_OPEN)
			sent &= rd_shm_pair_offer(pair, id, fd, size);
	rd_shm_station_unlock(endpoint->station);
	return sent;
}

static void shm_withdraw(struct rd_endpoint *base, uint64_t id)
{
	struct rd_shm_endpoint *endpoint = (struct rd_shm_endpoint *)base;

	/* A peer that never reads the notice keeps the memory until it leaves. */
	rd_shm_station_lock(endpoint->station, &endpoint->news);
	for (struct rd_shm_pair *pair = endpoint->pairs; pair; pair = pair->next)
		if (pair->state == RD_SHM_PAIR_OPEN)
			rd_shm_pair_withdraw(pair, id);
	rd_shm_station_unlock(endpoint->station);
}

static struct rd_shm_pair *pair_of(struct rd_link *base)
{
	const struct rd_shm_link *link = (const struct rd_shm_link *)base;

	return (struct rd_shm_pair *)((char *)link->peer - offsetof(struct rd_shm_pair, common));
}

/* Reads all that has come, and takes packets until the region is there. */
static const struct rd_shm_region *await_region(struct rd_shm_pair *pair, uint64_t id)
{
	struct rd_shm_endpoint *endpoint = pair->endpoint;
	const struct rd_shm_region *region = NULL;

	rd_shm_station_lock(endpoint->station, &endpoint->news);
	while (rd_shm_connection_handle(pair->connection))
		;
	while (!region && pair->state == RD_SHM_PAIR_OPEN && rd_shm_pair_handle(pair))
		region = rd_shm_region_find(pair->regions, id);
	rd_shm_station_unlock(endpoint->station);
	return region;
}

static void *shm_map(struct rd_link *base, uint64_t id, size_t *size)
{
	struct rd_shm_pair *pair = pair_of(base);
	const struct rd_shm_region *region = rd_shm_region_find(pair->regions, id);

	if (!region)
		region = await_region(pair, id);
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
