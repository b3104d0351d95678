#include "transports/shm/pair.h"

#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/cache_line.h"
#include "base/descriptor.h"
#include "base/error.h"
#include "base/settings.h"
#include "transports/shm/socket.h"

static const char closed_early[] = "closed its connection before the link was open";

/* ---- Shared memory --------------------------------------------------------------------------- */

static size_t segment_size(const struct rd_settings *settings, uint32_t slots)
{
	return (size_t)settings->channels * rd_shm_channel_size(settings->piece_size, slots);
}

/* Creates a sealed memfd of this size: no process can shrink it while another uses it. */
static int segment_create(size_t size)
{
	unsigned flags = MFD_CLOEXEC | MFD_ALLOW_SEALING;
	int fd = rd_above_stderr(memfd_create("rondo", flags));

	if (fd < 0)
		return rd_fail_errno("memfd_create");
	if (ftruncate(fd, (off_t)size) ||
		fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL)) {
		int err = rd_fail_errno("shared memory of %zu bytes", size);

		close(fd);
		return err;
	}
	return fd;
}

static bool pair_map(struct rd_shm_pair *pair, int fd)
{
	void *memory = mmap(NULL, pair->memory_size, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);

	if (memory == MAP_FAILED)
		return false;
	pair->memory = memory;
	return true;
}

/* ---- The life of a pair ---------------------------------------------------------------------- */

static void link_start(struct rd_shm_pair *pair, int channel)
{
	const struct rd_local *local = pair->endpoint->local;
	size_t size = rd_shm_channel_size(local->settings->piece_size, pair->slots);

	rd_shm_link_start(pair->links[channel], (char *)pair->memory + (size_t)channel * size,
		local->rank < pair->peer, pair->slots);
}

static void pair_start(struct rd_shm_pair *pair)
{
	const struct rd_shm_connection *connection = pair->connection;
	int channels = pair->endpoint->local->settings->channels;

	pair->state = RD_SHM_PAIR_OPEN;
	pair->endpoint->unready--;
	pair->common.pid = connection->pid;
	pair->common.wake_fd = connection->wake_fd;
	pair->common.fenced = connection->fenced;
	rd_shm_fd_close(&pair->memory_fd);
	for (int channel = 0; channel < channels; channel++)
		if (pair->links[channel])
			link_start(pair, channel);
}

static bool pair_send(struct rd_shm_pair *pair, const void *packet, size_t size, int fd)
{
	return rd_shm_connection_send(pair->connection, packet, size, fd);
}

static void send_end(struct rd_shm_pair *pair, bool goodbye)
{
	struct rd_shm_end end = rd_shm_end_of(pair->inbox.comm_id, goodbye);

	if (pair->state != RD_SHM_PAIR_ENDED && rd_shm_connection_is_open(pair->connection))
		pair_send(pair, &end, sizeof(end), -1);
}

static void pair_fail(struct rd_shm_pair *pair, int error, const char *reason)
{
	int channels = pair->endpoint->local->settings->channels;

	send_end(pair, false);
	pair->endpoint->unready--;
	pair->state = RD_SHM_PAIR_ENDED;
	rd_shm_fd_close(&pair->memory_fd);
	for (int channel = 0; channel < channels; channel++)
		if (pair->links[channel])
			rd_shm_link_fail(pair->links[channel], error, "%s", reason);
}

/* The peer is gone. A link fails when it has been read empty; most are empty now. */
static void pair_end(struct rd_shm_pair *pair)
{
	int channels = pair->endpoint->local->settings->channels;
	struct rd_message message;

	pair->state = RD_SHM_PAIR_ENDED;
	pair->common.ended = true;
	for (int channel = 0; channel < channels; channel++)
		if (pair->links[channel])
			rd_shm_ops.recv(&pair->links[channel]->base, NULL, 0, &message);
}

static void pair_free(struct rd_shm_pair *pair)
{
	int channels = pair->endpoint->local->settings->channels;

	rd_shm_fd_close(&pair->memory_fd);
	if (pair->memory)
		munmap(pair->memory, pair->memory_size);
	rd_shm_regions_finish(&pair->regions);
	for (int channel = 0; channel < channels; channel++)
		if (pair->links[channel])
			rd_shm_link_free(pair->links[channel]);
	free(pair);
}

void rd_shm_pair_destroy(struct rd_shm_pair *pair)
{
	int channels = pair->endpoint->local->settings->channels;

	for (int channel = 0; channel < channels; channel++)
		if (pair->links[channel])
			rd_shm_link_finish(pair->links[channel]);
	send_end(pair, true);
	rd_shm_connection_leave(pair->connection, &pair->inbox);
	pair_free(pair);
}

void rd_shm_pair_abandon(struct rd_shm_pair *pair)
{
	rd_shm_queue_finish(&pair->inbox.packets);
	pair_free(pair);
}

/* ---- Handshake ------------------------------------------------------------------------------- */

/* Takes ownership of fd; -1: none. */
static bool send_greeting(struct rd_shm_pair *pair, int fd)
{
	struct rd_shm_greeting greeting =
		rd_shm_greeting_to(pair->endpoint->local, pair->peer, pair->slots);

	return pair_send(pair, &greeting, sizeof(greeting), fd);
}

static void greet(struct rd_shm_pair *pair)
{
	int fd = pair->memory_fd;

	pair->memory_fd = -1;
	if (send_greeting(pair, fd))
		pair->state = RD_SHM_PAIR_GREETED;
	else
		pair_fail(pair, RONDO_BROKEN, closed_early);
}

/* The lower rank: the peer's memory has come. Takes the descriptor. */
static void adopt(struct rd_shm_pair *pair, const struct rd_shm_greeting *greeting, int *fd)
{
	pair->slots = greeting->slots;
	pair->memory_size = segment_size(pair->endpoint->local->settings, pair->slots);
	pair->memory_fd = *fd;
	*fd = -1;
	if (!rd_shm_sealed(pair->memory_fd, pair->memory_size))
		pair_fail(pair, RONDO_PROTOCOL, "offered memory that is not what was agreed");
	else if (!pair_map(pair, pair->memory_fd))
		pair_fail(pair, RONDO_MEMORY, "shares memory that cannot be mapped here");
	else if (!send_greeting(pair, -1))
		pair_fail(pair, RONDO_BROKEN, closed_early);
	else
		pair_start(pair);
}

/* Takes the descriptor. */
static void take_greeting(struct rd_shm_pair *pair, const struct rd_shm_greeting *greeting, int *fd)
{
	bool valid = rd_shm_greeting_valid(greeting, pair->endpoint->local) &&
		     greeting->from == (uint32_t)pair->peer;

	if (pair->state == RD_SHM_PAIR_AWAITED && valid)
		adopt(pair, greeting, fd);
	else if (pair->state == RD_SHM_PAIR_GREETED && valid && greeting->slots == pair->slots)
		pair_start(pair);
	else if (pair->state == RD_SHM_PAIR_OPEN)
		pair_end(pair);
	else
		pair_fail(pair, RONDO_PROTOCOL, "answered with a greeting that makes no sense");
}

/* ---- An open pair ---------------------------------------------------------------------------- */

/* The peer's endpoint has ended, or its process. */
static void take_end(struct rd_shm_pair *pair, int error, const char *reason)
{
	if (pair->state == RD_SHM_PAIR_OPEN)
		pair_end(pair);
	else
		pair_fail(pair, error, reason);
}

static void take_packet(struct rd_shm_pair *pair, struct rd_shm_queued *queued)
{
	const union rd_shm_packet *packet = &queued->packet;

	switch (rd_shm_packet_kind(packet, queued->size)) {
	case RD_SHM_GREETING:
		take_greeting(pair, &packet->greeting, &queued->fd);
		break;
	case RD_SHM_NOTICE:
		rd_shm_regions_update(&pair->regions, &packet->notice, queued->fd);
		break;
	default:
		pair->common.goodbye = packet->end.goodbye;
		take_end(pair, RONDO_BROKEN, closed_early);
		break;
	}
}

bool rd_shm_pair_handle(struct rd_shm_pair *pair)
{
	const struct rd_shm_connection *connection = pair->connection;
	struct rd_shm_queued *queued;

	if (pair->state == RD_SHM_PAIR_ENDED)
		return false;
	if (pair->state == RD_SHM_PAIR_MADE && rd_shm_connection_is_open(connection)) {
		greet(pair);
		return true;
	}
	queued = rd_shm_queue_take(&pair->inbox.packets);
	if (queued) {
		take_packet(pair, queued);
		rd_shm_queued_free(queued);
		return true;
	}
	if (connection->state != RD_SHM_ENDED)
		return false;
	take_end(pair, connection->error, connection->reason);
	return true;
}

bool rd_shm_pair_offer(struct rd_shm_pair *pair, uint64_t id, int fd, size_t size)
{
	struct rd_shm_notice notice = rd_shm_notice_of(true, pair->inbox.comm_id, id, size);

	return rd_shm_connection_is_open(pair->connection) &&
	       rd_shm_connection_try_send(pair->connection, &notice, sizeof(notice), fd);
}

void rd_shm_pair_withdraw(struct rd_shm_pair *pair, uint64_t id)
{
	struct rd_shm_notice notice = rd_shm_notice_of(false, pair->inbox.comm_id, id, 0);

	if (rd_shm_connection_is_open(pair->connection))
		pair_send(pair, &notice, sizeof(notice), -1);
}

/* ---- Creation -------------------------------------------------------------------------------- */

/* Creates the memory of the higher rank. */
static int pair_prepare(struct rd_shm_pair *pair)
{
	const struct rd_settings *settings = pair->endpoint->local->settings;
	int fd;

	pair->slots = (uint32_t)settings->slots;
	pair->memory_size = segment_size(settings, pair->slots);
	fd = segment_create(pair->memory_size);
	if (fd < 0)
		return fd;
	pair->memory_fd = fd;
	if (!pair_map(pair, fd))
		return rd_fail_errno("cannot map %zu bytes to share with rank %d",
			pair->memory_size, pair->peer);
	pair->state = RD_SHM_PAIR_MADE;
	return 0;
}

static struct rd_shm_pair *pair_new(
	struct rd_shm_endpoint *endpoint, int peer, struct rd_shm_connection *connection)
{
	size_t channels = (size_t)endpoint->local->settings->channels;
	struct rd_shm_pair *pair = calloc(1, sizeof(*pair) + channels * sizeof(pair->links[0]));

	if (!pair)
		return NULL;
	pair->endpoint = endpoint;
	pair->connection = connection;
	pair->inbox.comm_id = endpoint->local->comm_id;
	pair->inbox.news = &endpoint->news;
	pair->state = RD_SHM_PAIR_AWAITED;
	pair->peer = peer;
	pair->memory_fd = pair->common.wake_fd = -1;
	pair->common.armed = &endpoint->armed;
	pair->common.posting = &endpoint->posting;
	pair->common.refused = &pair->refused;
	return pair;
}

int rd_shm_pair_create(struct rd_shm_endpoint *endpoint, int peer,
	struct rd_shm_connection *connection, struct rd_shm_pair **result)
{
	struct rd_shm_pair *pair = pair_new(endpoint, peer, connection);
	int err = 0;

	if (!pair)
		return rd_fail(RONDO_MEMORY, "no memory for a pair");
	if (endpoint->local->rank > peer)
		err = pair_prepare(pair);
	if (err) {
		pair_free(pair);
		return err;
	}
	rd_shm_connection_join(connection, &pair->inbox);
	pair->next = endpoint->pairs;
	endpoint->pairs = pair;
	endpoint->unready++;
	atomic_store(&endpoint->news, true);
	*result = pair;
	return 0;
}

struct rd_shm_pair *rd_shm_pair_find(struct rd_shm_endpoint *endpoint, int peer)
{
	struct rd_shm_pair *pair = endpoint->pairs;

	while (pair && pair->peer != peer)
		pair = pair->next;
	return pair;
}

int rd_shm_pair_add_link(struct rd_shm_pair *pair, int channel)
{
	const struct rd_settings *settings = pair->endpoint->local->settings;
	struct rd_shm_link *link = rd_calloc_lines(sizeof(*link));

	if (!link)
		return rd_fail(RONDO_MEMORY, "no memory for a link");
	link->base.transport = pair->endpoint->base.transport;
	link->base.peer = pair->peer;
	link->base.channel = channel;
	link->base.message_max = settings->piece_size;
	link->base.send_min = settings->single_copy;
	link->base.single_copy = true;
	link->base.shares_room = true;
	rd_shm_link_init(link, &pair->common);
	pair->links[channel] = link;
	if (pair->state == RD_SHM_PAIR_MADE && rd_shm_connection_is_open(pair->connection))
		greet(pair);
	if (pair->state == RD_SHM_PAIR_OPEN)
		link_start(pair, channel);
	else if (pair->state == RD_SHM_PAIR_ENDED)
		rd_shm_link_end(link); /* keeps an earlier reason */
	return 0;
}
