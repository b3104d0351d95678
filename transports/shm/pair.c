#include "transports/shm/pair.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/descriptor.h"
#include "base/error.h"
#include "base/settings.h"
#include "transports/shm/socket.h"

#define GOODBYE "bye"

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
	int channels = pair->endpoint->local->settings->channels;

	pair->state = RD_SHM_PAIR_OPEN;
	pair->endpoint->unready--;
	rd_shm_fd_close(&pair->memory_fd);
	for (int channel = 0; channel < channels; channel++)
		if (pair->links[channel])
			link_start(pair, channel);
}

static void pair_fail(struct rd_shm_pair *pair, int error, const char *reason)
{
	int channels = pair->endpoint->local->settings->channels;

	if (pair->state < RD_SHM_PAIR_OPEN)
		pair->endpoint->unready--;
	pair->state = RD_SHM_PAIR_ENDED;
	rd_event_close(pair->endpoint->epoll_fd, &pair->fd);
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
	rd_event_close(pair->endpoint->epoll_fd, &pair->fd);
	for (int channel = 0; channel < channels; channel++)
		if (pair->links[channel])
			rd_shm_ops.recv(&pair->links[channel]->base, NULL, 0, &message);
}

static void pair_free(struct rd_shm_pair *pair)
{
	int channels = pair->endpoint->local->settings->channels;

	rd_shm_fd_close(&pair->memory_fd);
	rd_shm_fd_close(&pair->common.wake_fd);
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
	if (pair->state == RD_SHM_PAIR_OPEN)
		send(pair->fd, GOODBYE, sizeof(GOODBYE), MSG_NOSIGNAL | MSG_DONTWAIT);
	/* A child forked by the program may hold the socket: the peer must not wait for that. */
	if (pair->fd >= 0)
		shutdown(pair->fd, SHUT_RDWR);
	rd_event_close(pair->endpoint->epoll_fd, &pair->fd);
	pair_free(pair);
}

void rd_shm_pair_abandon(struct rd_shm_pair *pair)
{
	rd_shm_fd_close(&pair->fd);
	pair_free(pair);
}

/* ---- Handshake ------------------------------------------------------------------------------- */

static bool greeting_send(const struct rd_shm_pair *pair, const int *fds, size_t fd_count)
{
	const struct rd_shm_endpoint *endpoint = pair->endpoint;
	struct rd_shm_greeting greeting;

	rd_shm_greeting_init(&greeting, endpoint->local, pair->peer);
	greeting.slots = pair->slots;
	greeting.barriers = endpoint->barriers;
	return rd_shm_packet_send(pair->fd, &greeting, sizeof(greeting), fds, fd_count);
}

static bool eventfd_valid(int fd)
{
	int flags = fcntl(fd, F_GETFL);

	return flags >= 0 && flags & O_NONBLOCK;
}

void rd_shm_pair_connect(struct rd_shm_pair *pair)
{
	struct rd_shm_endpoint *endpoint = pair->endpoint;
	struct sockaddr_un address;
	socklen_t size = rd_shm_card_address(&pair->card, &address);
	int fds[2] = { pair->memory_fd, endpoint->wake_fd };

	if (connect(pair->fd, (struct sockaddr *)&address, size)) {
		if (errno == EAGAIN || errno == EINTR)
			return;
		pair_fail(pair, RONDO_BROKEN, "does not listen for shm any more");
	} else if (!rd_shm_is_own_user(pair->fd, &pair->common.pid)) {
		pair_fail(pair, RONDO_BROKEN, "belongs to another user");
	} else if (!greeting_send(pair, fds, 2) || rd_event_watch(endpoint->epoll_fd, EPOLL_CTL_ADD,
							   pair->fd, EPOLLIN, &pair->source)) {
		pair_fail(pair, RONDO_BROKEN, "closed its connection before the link was open");
	} else {
		pair->state = RD_SHM_PAIR_GREETED;
		rd_shm_fd_close(&pair->memory_fd);
	}
}

void rd_shm_pair_adopt(struct rd_shm_pair *pair, int fd, pid_t pid,
	const struct rd_shm_greeting *greeting, const int fds[2])
{
	struct rd_shm_endpoint *endpoint = pair->endpoint;

	pair->slots = greeting->slots;
	pair->common.fenced = !greeting->barriers || !endpoint->barriers;
	pair->memory_size = segment_size(endpoint->local->settings, pair->slots);
	pair->common.pid = pid;
	pair->fd = fd;
	pair->memory_fd = fds[0];
	pair->common.wake_fd = fds[1];
	if (!rd_shm_sealed(pair->memory_fd, pair->memory_size) ||
		!eventfd_valid(pair->common.wake_fd))
		pair_fail(pair, RONDO_PROTOCOL, "offered memory that is not what was agreed");
	else if (!pair_map(pair, pair->memory_fd))
		pair_fail(pair, RONDO_MEMORY, "shares memory that cannot be mapped here");
	else if (rd_event_watch(endpoint->epoll_fd, EPOLL_CTL_MOD, fd, EPOLLIN, &pair->source) ||
		 !greeting_send(pair, &endpoint->wake_fd, 1))
		pair_fail(pair, RONDO_BROKEN, "closed its connection before the link was open");
	else
		pair_start(pair);
}

void rd_shm_pairs_fail_awaited(struct rd_shm_endpoint *endpoint, int number)
{
	char reason[160];

	snprintf(reason, sizeof(reason), "its connection could not be accepted: %s",
		strerror(number));
	for (struct rd_shm_pair *pair = endpoint->pairs; pair; pair = pair->next)
		if (pair->state == RD_SHM_PAIR_AWAITED)
			pair_fail(pair, RONDO_SYSTEM, reason);
}

static bool pair_recv_answer(struct rd_shm_pair *pair)
{
	struct rd_shm_greeting greeting;
	int fds[2];
	enum rd_shm_received received = rd_shm_greeting_recv(pair->fd, &greeting, fds, 1);

	if (received == RD_SHM_RECEIVED_NOTHING)
		return false;
	pair->common.wake_fd = received == RD_SHM_RECEIVED_GREETING ? fds[0] : -1;
	pair->common.fenced = received != RD_SHM_RECEIVED_GREETING || !greeting.barriers ||
			      !pair->endpoint->barriers;
	if (received == RD_SHM_RECEIVED_INVALID)
		pair_fail(pair, RONDO_BROKEN, "closed its connection before the link was open");
	else if (!rd_shm_greeting_valid(&greeting, pair->endpoint->local) ||
		 greeting.from != (uint32_t)pair->peer || greeting.slots != pair->slots ||
		 !eventfd_valid(pair->common.wake_fd))
		pair_fail(pair, RONDO_PROTOCOL, "answered with a greeting that makes no sense");
	else
		pair_start(pair);
	return true;
}

/* ---- An open connection ---------------------------------------------------------------------- */

bool rd_shm_pair_handle(void *owner)
{
	struct rd_shm_pair *pair = owner;
	union {
		char goodbye[sizeof(GOODBYE)];
		struct rd_shm_notice notice;
	} packet;
	int fds[2];

	if (pair->state == RD_SHM_PAIR_GREETED)
		return pair_recv_answer(pair);
	if (pair->state != RD_SHM_PAIR_OPEN)
		return false;
	ssize_t size = rd_shm_packet_recv(pair->fd, &packet, sizeof(packet), fds);

	if (size < 0 && (errno == EAGAIN || errno == EINTR))
		return false;
	bool is_notice = size > 0 && rd_shm_regions_update(
					     &pair->regions, &packet.notice, (size_t)size, fds[0]);

	rd_shm_fd_close(&fds[0]);
	rd_shm_fd_close(&fds[1]);
	if (is_notice)
		return true;
	/* The peer closed before it read our notices. Its own can still be read after this
	   error. */
	if (size < 0 && errno == ECONNRESET && !pair->reset) {
		pair->reset = true;
		return true;
	}
	if (size == (ssize_t)sizeof(packet.goodbye) &&
		memcmp(packet.goodbye, GOODBYE, sizeof(packet.goodbye)) == 0)
		pair->common.goodbye = true;
	pair_end(pair);
	return true;
}

/* ---- Creation -------------------------------------------------------------------------------- */

/* Creates all local resources of the higher rank. */
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
	pair->fd =
		rd_above_stderr(socket(AF_UNIX, SOCK_SEQPACKET | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
	if (pair->fd < 0)
		return rd_fail_errno("socket");
	pair->state = RD_SHM_PAIR_CONNECTING;
	return 0;
}

static struct rd_shm_pair *pair_new(
	struct rd_shm_endpoint *endpoint, int peer, const struct rd_shm_card *card)
{
	size_t channels = (size_t)endpoint->local->settings->channels;
	struct rd_shm_pair *pair = calloc(1, sizeof(*pair) + channels * sizeof(pair->links[0]));

	if (!pair)
		return NULL;
	pair->source = (struct rd_event_source){ rd_shm_pair_handle, pair };
	pair->fd = -1;
	pair->endpoint = endpoint;
	pair->state = RD_SHM_PAIR_AWAITED;
	pair->peer = peer;
	pair->card = *card;
	pair->memory_fd = pair->common.wake_fd = -1;
	pair->common.armed = &endpoint->armed;
	pair->common.posting = &endpoint->posting;
	pair->common.refused = &pair->refused;
	return pair;
}

int rd_shm_pair_create(struct rd_shm_endpoint *endpoint, int peer, const struct rd_shm_card *card,
	struct rd_shm_pair **result)
{
	struct rd_shm_pair *pair = pair_new(endpoint, peer, card);
	int err = 0;

	if (!pair)
		return rd_fail(RONDO_MEMORY, "no memory for a pair");
	if (endpoint->local->rank > peer)
		err = pair_prepare(pair);
	if (err) {
		rd_shm_pair_destroy(pair);
		return err;
	}
	pair->next = endpoint->pairs;
	endpoint->pairs = pair;
	endpoint->unready++;
	endpoint->poll_due = true;
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
	struct rd_shm_link *link = calloc(1, sizeof(*link));

	if (!link)
		return rd_fail(RONDO_MEMORY, "no memory for a link");
	link->base.transport = pair->endpoint->base.transport;
	link->base.peer = pair->peer;
	link->base.channel = channel;
	link->base.message_max = settings->piece_size;
	link->base.send_min = settings->single_copy;
	link->base.single_copy = true;
	rd_shm_link_init(link, &pair->common);
	pair->links[channel] = link;
	if (pair->state == RD_SHM_PAIR_CONNECTING)
		rd_shm_pair_connect(pair);
	if (pair->state == RD_SHM_PAIR_OPEN)
		link_start(pair, channel);
	else if (pair->state == RD_SHM_PAIR_ENDED)
		rd_shm_link_end(link); /* keeps an earlier reason */
	return 0;
}
