/*
 * shm: ranks of one user on one host, processes or threads, over memory that both map.
 *
 * Memory. Each pair of ranks shares one memfd. The higher rank makes it, seals it against
 * resizing, and passes it over a Unix socket. It holds one FIFO a direction and channel
 * (shm_fifo.h). Each starts on a page (a page that no message has touched costs nothing):
 *
 *   segment   up[channels] (higher to lower rank), down[channels]
 *
 * Regions. A rank that offers memory of its own (offer()) passes its memfd with an id over the
 * same connection. That memfd is sealed as the pair's is. The peer maps it when it next reads the
 * connection, where offers wait. map() drains the connection before it returns NULL, so a later
 * message cannot overtake an offer.
 *
 * Meeting. The card holds the name of an abstract Unix socket (gone with its last descriptor) and
 * a key. The higher rank connects and sends a greeting, with the memfd and its eventfd. The lower
 * rank checks uid, key, comm, rank and shape, and answers with its eventfd. The connection stays
 * open: its end reports a death. An orderly close() sends a goodbye first. The memory exists as
 * long as it is mapped, so messages that a dead rank had sent are still read; then the link fails.
 */
#include <errno.h>
#include <fcntl.h>
#include <linux/membarrier.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/error.h"
#include "transports/shm_fifo.h"
#include "transports/shm_region.h"
#include "transports/shm_socket.h"
#include "transports/transports.h"

#define CARD_MAGIC 0x6d687372u /* "rshm" */
#define GREET_MAGIC 0x6d687367u /* "gshm" */
#define SHM_VERSION 1
#define KEY_SIZE 16
#define STRANGERS_MAX 32 /* connections that have not been matched with a pair yet */
#define GOODBYE "bye"

struct card {
	uint32_t magic, version;
	unsigned char name[KEY_SIZE];
	unsigned char key[KEY_SIZE];
};

/* The same both ways: the key is from the card of the receiver. */
struct greeting {
	uint32_t magic, version;
	unsigned char key[KEY_SIZE];
	uint64_t comm_id;
	uint32_t from, to;
	uint32_t channels, slots;
	uint64_t piece_size;
	uint32_t barriers; /* 1: the sender has membarrier(2), and calls it before it sleeps */
	uint32_t reserved;
};

struct shm_endpoint;

/* A descriptor that the endpoint watches. */
struct source {
	int fd; /* -1: none */
	bool (*ready)(struct shm_endpoint *endpoint, struct source *source);
};

/* A process that has connected. With a greeting: a peer that was not opened here yet. */
struct stranger {
	struct source source;
	uint64_t age;
	pid_t pid;
	bool greeted;
	struct greeting greeting;
	int fds[2];
};

enum pair_state {
	PAIR_EXPECTS, /* the peer will connect */
	PAIR_CONNECTS, /* its backlog is full: again later */
	PAIR_GREETED, /* we have greeted, it has not */
	PAIR_OPEN,
	PAIR_ENDED,
};

struct pair {
	struct source source; /* the connection */
	struct pair *next;
	struct shm_endpoint *endpoint;
	enum pair_state state;
	int peer;
	struct card card;
	int memory_fd; /* until the peer has it */
	struct rd_shm_peer common; /* what its links need of it */
	bool refused;
	void *memory;
	size_t memory_size;
	uint32_t slots;
	bool reset;
	struct rd_shm_region *regions; /* of the peer's, mapped here */
	struct rd_shm_link *links[]; /* [channels]; NULL: not opened */
};

struct shm_endpoint {
	struct rd_endpoint base;
	const struct rd_local *local;
	struct card card;
	struct source listener;
	int bell;
	bool barriers; /* membarrier(2) works, and includes this process */
	int watch; /* epoll: listener, strangers, pairs. Its own readiness wakes the rank */
	bool armed;
	unsigned posting; /* links that have posts under way */
	bool news; /* the watch must be looked at */
	unsigned calls;
	int unready; /* pairs between open() and PAIR_OPEN */
	struct pair *pairs;
	struct stranger strangers[STRANGERS_MAX];
	uint64_t age;
};

/* ---- Shared memory --------------------------------------------------------------------------- */

static size_t segment_size(const struct rd_settings *settings, uint32_t slots)
{
	return 2 * (size_t)settings->channels * rd_shm_fifo_size(settings->piece_size, slots);
}

/* A sealed memfd of this size: nobody can shrink it under the other's feet. */
static int segment_create(size_t size)
{
	unsigned flags = MFD_CLOEXEC | MFD_ALLOW_SEALING;
	int fd = memfd_create("rondo", flags);

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

static bool pair_map(struct pair *pair, int fd)
{
	void *memory = mmap(NULL, pair->memory_size, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);

	if (memory == MAP_FAILED)
		return false;
	pair->memory = memory;
	return true;
}

static struct rd_shm_fifo *pair_fifo(const struct pair *pair, bool up, int channel)
{
	const struct rd_settings *settings = pair->endpoint->local->settings;
	size_t index = (size_t)channel + (up ? 0 : (size_t)settings->channels);

	return (struct rd_shm_fifo *)((char *)pair->memory +
				      index * rd_shm_fifo_size(settings->piece_size, pair->slots));
}

/* ---- Watching -------------------------------------------------------------------------------- */

static int watch(struct shm_endpoint *endpoint, struct source *source)
{
	struct epoll_event event = { .events = EPOLLIN, .data.ptr = source };

	return epoll_ctl(endpoint->watch, EPOLL_CTL_ADD, source->fd, &event);
}

static void source_close(struct shm_endpoint *endpoint, struct source *source)
{
	if (source->fd < 0)
		return;
	/* By hand: a child forked by the program may hold the same socket open. */
	epoll_ctl(endpoint->watch, EPOLL_CTL_DEL, source->fd, NULL);
	close(source->fd);
	source->fd = -1;
}

static void fd_close(int *fd)
{
	if (*fd >= 0)
		close(*fd);
	*fd = -1;
}

/* ---- The life of a pair ---------------------------------------------------------------------- */

static void link_start(struct pair *pair, int channel)
{
	bool higher = pair->endpoint->local->rank > pair->peer;

	rd_shm_link_start(pair->links[channel], pair_fifo(pair, !higher, channel),
		pair_fifo(pair, higher, channel), pair->slots);
}

static void pair_fail(struct pair *pair, int error, const char *reason)
{
	int channels = pair->endpoint->local->settings->channels;

	if (pair->state < PAIR_OPEN)
		pair->endpoint->unready--;
	pair->state = PAIR_ENDED;
	source_close(pair->endpoint, &pair->source);
	fd_close(&pair->memory_fd);
	for (int channel = 0; channel < channels; channel++)
		if (pair->links[channel])
			rd_shm_link_fail(pair->links[channel], error, "%s", reason);
}

/* The peer is gone. Links fail once they are read empty, which for most is now. */
static void pair_end(struct pair *pair)
{
	int channels = pair->endpoint->local->settings->channels;
	struct rd_message message;

	pair->state = PAIR_ENDED;
	pair->common.ended = true;
	source_close(pair->endpoint, &pair->source);
	for (int channel = 0; channel < channels; channel++)
		if (pair->links[channel])
			rd_shm_ops.recv(&pair->links[channel]->base, NULL, 0, &message);
}

static void pair_start(struct pair *pair)
{
	int channels = pair->endpoint->local->settings->channels;

	pair->state = PAIR_OPEN;
	pair->endpoint->unready--;
	fd_close(&pair->memory_fd);
	for (int channel = 0; channel < channels; channel++)
		if (pair->links[channel])
			link_start(pair, channel);
}

/* ---- Greetings ------------------------------------------------------------------------------- */

static bool greeting_send(const struct pair *pair, int socket, const int *fds, size_t fd_count)
{
	const struct rd_local *local = pair->endpoint->local;
	struct greeting greeting = {
		.magic = GREET_MAGIC,
		.version = SHM_VERSION,
		.comm_id = local->comm_id,
		.from = (uint32_t)local->rank,
		.to = (uint32_t)pair->peer,
		.channels = (uint32_t)local->settings->channels,
		.slots = pair->slots,
		.piece_size = local->settings->piece_size,
		.barriers = pair->endpoint->barriers,
	};

	memcpy(greeting.key, pair->card.key, KEY_SIZE);
	return rd_shm_packet_send(socket, &greeting, sizeof(greeting), fds, fd_count);
}

enum heard { HEARD_NOTHING, HEARD_GREETING, HEARD_RUBBISH };

/* One packet with exactly fd_count descriptors (in fds; else -1). The end of the line is rubbish.
 */
static enum heard greeting_recv(int socket, struct greeting *greeting, int fds[2], size_t fd_count)
{
	ssize_t size = rd_shm_packet_recv(socket, greeting, sizeof(*greeting), fds);

	if (size < 0)
		return errno == EAGAIN || errno == EINTR ? HEARD_NOTHING : HEARD_RUBBISH;
	if (size == (ssize_t)sizeof(*greeting) &&
		(size_t)(fds[0] >= 0) + (size_t)(fds[1] >= 0) == fd_count)
		return HEARD_GREETING;
	fd_close(&fds[0]);
	fd_close(&fds[1]);
	return HEARD_RUBBISH;
}

static bool bell_valid(int fd)
{
	int flags = fcntl(fd, F_GETFL);

	return flags >= 0 && flags & O_NONBLOCK;
}

static bool greeting_valid(const struct shm_endpoint *endpoint, const struct greeting *greeting)
{
	const struct rd_local *local = endpoint->local;

	return greeting->magic == GREET_MAGIC && greeting->version == SHM_VERSION &&
	       memcmp(greeting->key, endpoint->card.key, KEY_SIZE) == 0 &&
	       greeting->comm_id == local->comm_id && greeting->to == (uint32_t)local->rank &&
	       greeting->from < (uint32_t)local->size &&
	       greeting->channels == (uint32_t)local->settings->channels &&
	       greeting->piece_size == local->settings->piece_size && greeting->slots >= 1 &&
	       greeting->slots <= RD_SHM_SLOTS_MAX;
}

/* ---- The lower rank: being connected to ------------------------------------------------------ */

static void stranger_drop(struct shm_endpoint *endpoint, struct stranger *stranger)
{
	source_close(endpoint, &stranger->source);
	fd_close(&stranger->fds[0]);
	fd_close(&stranger->fds[1]);
	stranger->greeted = false;
}

static bool pair_ready(struct shm_endpoint *endpoint, struct source *source);

/* The stranger is the peer this pair expects: its socket and descriptors become the pair's. */
static void pair_adopt(struct pair *pair, struct stranger *stranger)
{
	struct shm_endpoint *endpoint = pair->endpoint;
	struct epoll_event event = { .events = EPOLLIN, .data.ptr = &pair->source };

	pair->slots = stranger->greeting.slots;
	pair->common.fenced = !stranger->greeting.barriers || !endpoint->barriers;
	pair->memory_size = segment_size(endpoint->local->settings, pair->slots);
	pair->common.pid = stranger->pid;
	pair->source.fd = stranger->source.fd;
	pair->memory_fd = stranger->fds[0];
	pair->common.bell = stranger->fds[1];
	stranger->source.fd = stranger->fds[0] = stranger->fds[1] = -1;
	stranger->greeted = false;
	if (!rd_shm_sealed(pair->memory_fd, pair->memory_size) || !bell_valid(pair->common.bell))
		pair_fail(pair, RONDO_PROTOCOL, "offered memory that is not what was agreed");
	else if (!pair_map(pair, pair->memory_fd))
		pair_fail(pair, RONDO_MEMORY, "shares memory that cannot be mapped here");
	else if (epoll_ctl(endpoint->watch, EPOLL_CTL_MOD, pair->source.fd, &event) ||
		 !greeting_send(pair, pair->source.fd, &endpoint->bell, 1))
		pair_fail(pair, RONDO_BROKEN, "closed its connection before the link was open");
	else
		pair_start(pair);
}

static struct pair *pair_find(struct shm_endpoint *endpoint, int peer)
{
	struct pair *pair = endpoint->pairs;

	while (pair && pair->peer != peer)
		pair = pair->next;
	return pair;
}

/* Matches one that has greeted with its pair, if that is open by now. */
static void stranger_settle(struct shm_endpoint *endpoint, struct stranger *stranger)
{
	struct pair *pair = pair_find(endpoint, (int)stranger->greeting.from);

	if (pair && pair->state == PAIR_EXPECTS)
		pair_adopt(pair, stranger);
	else if (pair)
		stranger_drop(endpoint, stranger);
}

static bool stranger_ready(struct shm_endpoint *endpoint, struct source *source)
{
	struct stranger *stranger = (struct stranger *)source;
	enum heard heard;

	/* It waits for its pair: more words, or the end, are no greeting. */
	if (stranger->greeted) {
		stranger_drop(endpoint, stranger);
		return true;
	}
	heard = greeting_recv(source->fd, &stranger->greeting, stranger->fds, 2);
	if (heard == HEARD_NOTHING)
		return false;
	if (heard == HEARD_RUBBISH || !greeting_valid(endpoint, &stranger->greeting)) {
		stranger_drop(endpoint, stranger);
		return true;
	}
	stranger->greeted = true;
	stranger_settle(endpoint, stranger);
	return true;
}

/* A free place, or that of the longest silent stranger. NULL: all have sent a greeting. */
static struct stranger *stranger_place(struct shm_endpoint *endpoint)
{
	struct stranger *oldest = NULL;

	for (int i = 0; i < STRANGERS_MAX; i++) {
		struct stranger *stranger = &endpoint->strangers[i];

		if (stranger->source.fd < 0)
			return stranger;
		if (!stranger->greeted && (!oldest || stranger->age < oldest->age))
			oldest = stranger;
	}
	if (oldest)
		stranger_drop(endpoint, oldest);
	return oldest;
}

static bool listener_ready(struct shm_endpoint *endpoint, struct source *source)
{
	struct stranger *stranger = stranger_place(endpoint);

	if (!stranger)
		return false;
	int fd = accept4(source->fd, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC);

	if (fd < 0)
		return false;
	stranger->source.fd = fd;
	stranger->age = endpoint->age++;
	if (!rd_shm_is_own_user(fd, &stranger->pid) || watch(endpoint, &stranger->source))
		stranger_drop(endpoint, stranger);
	else
		stranger_ready(endpoint, &stranger->source);
	return true;
}

/* ---- The higher rank: connecting ------------------------------------------------------------- */

static socklen_t name_fill(struct sockaddr_un *address, const unsigned char name[KEY_SIZE])
{
	/* A zero first byte: abstract, nothing in the file system. */
	int length = 1 + sprintf(address->sun_path + 1, "rondo-");

	address->sun_family = AF_UNIX;
	for (int i = 0; i < KEY_SIZE; i++)
		length += sprintf(address->sun_path + length, "%02x", name[i]);
	return (socklen_t)(offsetof(struct sockaddr_un, sun_path) + (size_t)length);
}

static void pair_connect(struct pair *pair)
{
	struct shm_endpoint *endpoint = pair->endpoint;
	struct sockaddr_un address = { 0 };
	socklen_t size = name_fill(&address, pair->card.name);
	int fds[2] = { pair->memory_fd, endpoint->bell };

	if (connect(pair->source.fd, (struct sockaddr *)&address, size)) {
		if (errno == EAGAIN || errno == EINTR)
			return;
		pair_fail(pair, RONDO_BROKEN, "does not listen for shm any more");
	} else if (!rd_shm_is_own_user(pair->source.fd, &pair->common.pid)) {
		pair_fail(pair, RONDO_BROKEN, "belongs to another user");
	} else if (!greeting_send(pair, pair->source.fd, fds, 2) ||
		   watch(endpoint, &pair->source)) {
		pair_fail(pair, RONDO_BROKEN, "closed its connection before the link was open");
	} else {
		pair->state = PAIR_GREETED;
		fd_close(&pair->memory_fd);
	}
}

/* Makes all that may fail for our own fault. */
static int pair_prepare(struct pair *pair)
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
	pair->source.fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
	if (pair->source.fd < 0)
		return rd_fail_errno("socket");
	pair->state = PAIR_CONNECTS;
	return 0;
}

static bool pair_welcomed(struct pair *pair)
{
	struct greeting greeting;
	int fds[2];
	enum heard heard = greeting_recv(pair->source.fd, &greeting, fds, 1);

	if (heard == HEARD_NOTHING)
		return false;
	pair->common.bell = heard == HEARD_GREETING ? fds[0] : -1;
	pair->common.fenced =
		heard != HEARD_GREETING || !greeting.barriers || !pair->endpoint->barriers;
	if (heard == HEARD_RUBBISH)
		pair_fail(pair, RONDO_BROKEN, "closed its connection before the link was open");
	else if (!greeting_valid(pair->endpoint, &greeting) ||
		 greeting.from != (uint32_t)pair->peer || greeting.slots != pair->slots ||
		 !bell_valid(pair->common.bell))
		pair_fail(pair, RONDO_PROTOCOL, "answered with a greeting that makes no sense");
	else
		pair_start(pair);
	return true;
}

/* ---- Regions --------------------------------------------------------------------------------- */

static bool shm_offer(struct rd_endpoint *base, uint64_t id, int fd, size_t size)
{
	struct shm_endpoint *endpoint = (struct shm_endpoint *)base;
	bool told = true;

	for (struct pair *pair = endpoint->pairs; pair; pair = pair->next)
		if (pair->state == PAIR_OPEN)
			told &= rd_shm_region_offer(pair->source.fd, id, fd, size);
	return told;
}

static void shm_withdraw(struct rd_endpoint *base, uint64_t id)
{
	struct shm_endpoint *endpoint = (struct shm_endpoint *)base;

	/* A peer that never reads the notice keeps the memory until it leaves. */
	for (struct pair *pair = endpoint->pairs; pair; pair = pair->next)
		if (pair->state == PAIR_OPEN)
			rd_shm_region_withdraw(pair->source.fd, id);
}

static struct pair *pair_of(struct rd_link *base)
{
	const struct rd_shm_link *link = (const struct rd_shm_link *)base;

	return (struct pair *)((char *)link->peer - offsetof(struct pair, common));
}

static void *shm_map(struct rd_link *base, uint64_t id, size_t *size)
{
	struct pair *pair = pair_of(base);
	const struct rd_shm_region *region = rd_shm_region_find(pair->regions, id);

	while (!region && pair->state == PAIR_OPEN && pair_ready(pair->endpoint, &pair->source))
		region = rd_shm_region_find(pair->regions, id);
	if (!region || !region->base)
		return NULL;
	*size = region->size;
	return region->base;
}

static bool pair_ready(struct shm_endpoint *endpoint, struct source *source)
{
	struct pair *pair = (struct pair *)source;
	union {
		char flag[sizeof(GOODBYE)];
		struct rd_shm_notice notice;
	} said;
	int fds[2];

	(void)endpoint;
	if (pair->state == PAIR_GREETED)
		return pair_welcomed(pair);
	if (pair->state != PAIR_OPEN)
		return false;
	ssize_t size = rd_shm_packet_recv(source->fd, &said, sizeof(said), fds);

	if (size < 0 && (errno == EAGAIN || errno == EINTR))
		return false;
	bool heeded =
		size > 0 && rd_shm_region_heed(&pair->regions, &said.notice, (size_t)size, fds[0]);

	fd_close(&fds[0]);
	fd_close(&fds[1]);
	if (heeded)
		return true;
	/* The peer left our notices unread; its own can be read after this. */
	if (size < 0 && errno == ECONNRESET && !pair->reset) {
		pair->reset = true;
		return true;
	}
	if (size == (ssize_t)sizeof(said.flag) &&
		memcmp(said.flag, GOODBYE, sizeof(said.flag)) == 0)
		pair->common.goodbye = true;
	pair_end(pair);
	return true;
}

/* ---- The endpoint ---------------------------------------------------------------------------- */

static int shm_reach(const struct rd_place *here, const struct rd_place *there)
{
	return rd_place_same_host(here, there) && here->uid == there->uid ? 100 : -1;
}

static int fill_random(void *bytes, size_t size)
{
	return getrandom(bytes, size, 0) == (ssize_t)size ? 0 : rd_fail_errno("getrandom");
}

static int card_make(struct card *card)
{
	*card = (struct card){ .magic = CARD_MAGIC, .version = SHM_VERSION };
	int err = fill_random(card->name, sizeof(card->name));

	return err ? err : fill_random(card->key, sizeof(card->key));
}

static int wake_by(const struct rd_local *local, int fd)
{
	struct epoll_event event = { .events = EPOLLIN | EPOLLET };

	if (epoll_ctl(local->epoll_fd, EPOLL_CTL_ADD, fd, &event))
		return rd_fail_errno("epoll_ctl");
	return 0;
}

static int endpoint_listen(struct shm_endpoint *endpoint)
{
	struct sockaddr_un address = { 0 };
	socklen_t size = name_fill(&address, endpoint->card.name);
	int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);

	endpoint->listener.fd = fd;
	if (fd < 0)
		return rd_fail_errno("socket");
	if (bind(fd, (struct sockaddr *)&address, size) || listen(fd, SOMAXCONN))
		return rd_fail_errno("cannot listen on an abstract Unix socket");
	if (watch(endpoint, &endpoint->listener))
		return rd_fail_errno("epoll_ctl");
	return 0;
}

static int endpoint_start(struct shm_endpoint *endpoint)
{
	int err = card_make(&endpoint->card);

	if (err)
		return err;
	endpoint->barriers =
		syscall(SYS_membarrier, MEMBARRIER_CMD_REGISTER_GLOBAL_EXPEDITED, 0, 0) == 0;
	endpoint->bell = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	endpoint->watch = epoll_create1(EPOLL_CLOEXEC);
	if (endpoint->bell < 0 || endpoint->watch < 0)
		return rd_fail_errno("cannot make an eventfd and an epoll");
	err = endpoint_listen(endpoint);
	if (!err)
		err = wake_by(endpoint->local, endpoint->bell);
	return err ? err : wake_by(endpoint->local, endpoint->watch);
}

static void shm_close(struct rd_endpoint *base);

static struct shm_endpoint *endpoint_create(const struct rd_local *local)
{
	struct shm_endpoint *endpoint = calloc(1, sizeof(*endpoint));

	if (!endpoint)
		return NULL;
	endpoint->base.transport = &rd_transport_shm;
	endpoint->local = local;
	endpoint->bell = endpoint->watch = -1;
	endpoint->listener = (struct source){ -1, listener_ready };
	for (int i = 0; i < STRANGERS_MAX; i++)
		endpoint->strangers[i] =
			(struct stranger){ .source = { -1, stranger_ready }, .fds = { -1, -1 } };
	return endpoint;
}

static int shm_listen(struct rd_endpoint **out, const struct rd_local *local,
	unsigned char card[RD_CARD_MAX], size_t *card_size)
{
	struct shm_endpoint *endpoint = endpoint_create(local);
	int err;

	if (!endpoint)
		return rd_fail(RONDO_MEMORY, "no memory for a shm endpoint");
	err = endpoint_start(endpoint);
	if (err) {
		shm_close(&endpoint->base);
		return err;
	}
	memcpy(card, &endpoint->card, sizeof(endpoint->card));
	*card_size = sizeof(endpoint->card);
	*out = &endpoint->base;
	return 0;
}

static void pair_destroy(struct pair *pair)
{
	int channels = pair->endpoint->local->settings->channels;

	for (int channel = 0; channel < channels; channel++)
		if (pair->links[channel])
			rd_shm_link_finish(pair->links[channel]);
	if (pair->state == PAIR_OPEN)
		send(pair->source.fd, GOODBYE, sizeof(GOODBYE), MSG_NOSIGNAL | MSG_DONTWAIT);
	/* A child forked by the program may hold the socket open: the peer must not wait for it. */
	if (pair->source.fd >= 0)
		shutdown(pair->source.fd, SHUT_RDWR);
	source_close(pair->endpoint, &pair->source);
	fd_close(&pair->memory_fd);
	fd_close(&pair->common.bell);
	if (pair->memory)
		munmap(pair->memory, pair->memory_size);
	rd_shm_regions_finish(&pair->regions);
	for (int channel = 0; channel < channels; channel++)
		free(pair->links[channel]);
	free(pair);
}

static struct pair *pair_new(struct shm_endpoint *endpoint, int peer, const struct card *card)
{
	size_t channels = (size_t)endpoint->local->settings->channels;
	struct pair *pair = calloc(1, sizeof(*pair) + channels * sizeof(pair->links[0]));

	if (!pair)
		return NULL;
	pair->source = (struct source){ -1, pair_ready };
	pair->endpoint = endpoint;
	pair->state = PAIR_EXPECTS;
	pair->peer = peer;
	pair->card = *card;
	pair->memory_fd = pair->common.bell = -1;
	pair->common.armed = &endpoint->armed;
	pair->common.posting = &endpoint->posting;
	pair->common.refused = &pair->refused;
	return pair;
}

static int pair_create(
	struct shm_endpoint *endpoint, int peer, const struct card *card, struct pair **out)
{
	struct pair *pair = pair_new(endpoint, peer, card);
	int err = 0;

	if (!pair)
		return rd_fail(RONDO_MEMORY, "no memory for a pair");
	if (endpoint->local->rank > peer)
		err = pair_prepare(pair);
	if (err) {
		pair_destroy(pair);
		return err;
	}
	pair->next = endpoint->pairs;
	endpoint->pairs = pair;
	endpoint->unready++;
	endpoint->news = true;
	*out = pair;
	return 0;
}

static int link_create(struct pair *pair, int channel)
{
	const struct rd_settings *settings = pair->endpoint->local->settings;
	struct rd_shm_link *link = calloc(1, sizeof(*link));

	if (!link)
		return rd_fail(RONDO_MEMORY, "no memory for a link");
	link->base.transport = &rd_transport_shm;
	link->base.peer = pair->peer;
	link->base.channel = channel;
	link->base.message_max = settings->piece_size;
	link->base.send_min = settings->single_copy;
	link->base.single_copy = true;
	rd_shm_link_init(link, &pair->common);
	pair->links[channel] = link;
	return 0;
}

static int card_read(struct card *card, const unsigned char *bytes, size_t size)
{
	if (size != sizeof(*card))
		return rd_fail(
			RONDO_PROTOCOL, "a shm card of %zu bytes, not %zu", size, sizeof(*card));
	memcpy(card, bytes, sizeof(*card));
	if (card->magic != CARD_MAGIC || card->version != SHM_VERSION)
		return rd_fail(RONDO_PROTOCOL, "a shm card of another version, or none at all");
	return 0;
}

static int open_check(const struct shm_endpoint *endpoint, int peer, int channel)
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
	struct shm_endpoint *endpoint = (struct shm_endpoint *)base;
	struct card card;
	int err = open_check(endpoint, peer, channel);

	if (!err)
		err = card_read(&card, bytes, size);
	if (err)
		return err;
	struct pair *pair = pair_find(endpoint, peer);

	if (!pair)
		err = pair_create(endpoint, peer, &card, &pair);
	if (err)
		return err;
	if (pair->links[channel])
		return rd_fail(RONDO_INVALID, "channel %d to rank %d is open", channel, peer);
	err = link_create(pair, channel);
	if (err)
		return err;
	*out = &pair->links[channel]->base;
	if (pair->state == PAIR_CONNECTS)
		pair_connect(pair);
	if (pair->state == PAIR_OPEN)
		link_start(pair, channel);
	else if (pair->state == PAIR_ENDED)
		rd_shm_link_end(pair->links[channel]); /* only where it has no better reason yet */
	return 0;
}

/* Connects pairs, and matches strangers that came before their pair was open. */
static void endpoint_meet(struct shm_endpoint *endpoint)
{
	for (struct pair *pair = endpoint->pairs; pair; pair = pair->next)
		if (pair->state == PAIR_CONNECTS)
			pair_connect(pair);
	for (int i = 0; i < STRANGERS_MAX; i++)
		if (endpoint->strangers[i].greeted)
			stranger_settle(endpoint, &endpoint->strangers[i]);
}

/* The most rounds of events that one look handles, so that strangers cannot delay it. */
#define LOOK_ROUNDS 64

/* True: a pair has moved. Traffic of a stranger is no sign of life to a waiting call. */
static bool endpoint_look(struct shm_endpoint *endpoint)
{
	struct epoll_event events[16];
	bool moved = false, stirred = true;

	for (int round = 0; stirred && round < LOOK_ROUNDS; round++) {
		int count = epoll_wait(endpoint->watch, events, 16, 0);

		stirred = false;
		for (int i = 0; i < count; i++) {
			struct source *source = events[i].data.ptr;

			if (source->fd < 0 || !source->ready(endpoint, source))
				continue;
			stirred = true;
			moved |= source->ready == pair_ready;
		}
	}
	/* Where rounds ran out there is more to be had. */
	endpoint->news = stirred;
	return moved;
}

static bool endpoint_settle(struct shm_endpoint *endpoint)
{
	int channels = endpoint->local->settings->channels;
	bool moved = false;

	for (struct pair *pair = endpoint->pairs; pair; pair = pair->next)
		for (int channel = 0; channel < channels; channel++)
			if (pair->links[channel])
				moved |= rd_shm_link_settle(pair->links[channel]);
	return moved;
}

/*
 * Makes system calls only while links are not ready, after a sleep, and once in a while, to detect
 * deaths of peers outside any wait.
 */
static bool shm_advance(struct rd_endpoint *base)
{
	struct shm_endpoint *endpoint = (struct shm_endpoint *)base;

	/* Before the first open() nobody is expected, and the comm has no number. */
	if (!endpoint->pairs)
		return false;
	bool moved = endpoint->posting > 0 && endpoint_settle(endpoint);

	if (!endpoint->unready && !endpoint->news && ++endpoint->calls % 1024 != 0)
		return moved;
	int unready = endpoint->unready;

	if (unready)
		endpoint_meet(endpoint);
	moved |= endpoint_look(endpoint);
	return moved || endpoint->unready != unready;
}

static void shm_arm(struct rd_endpoint *base)
{
	struct shm_endpoint *endpoint = (struct shm_endpoint *)base;
	int channels = endpoint->local->settings->channels;
	const struct rd_shm_link *flagged = NULL;

	/* A link found empty or full only after this raises its flags then. */
	endpoint->armed = true;
	for (struct pair *pair = endpoint->pairs; pair; pair = pair->next)
		for (int channel = 0; channel < channels && pair->state == PAIR_OPEN; channel++) {
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
	struct shm_endpoint *endpoint = (struct shm_endpoint *)base;
	int channels = endpoint->local->settings->channels;

	endpoint->armed = false;
	endpoint->news = true;
	for (struct pair *pair = endpoint->pairs; pair; pair = pair->next)
		for (int channel = 0; channel < channels; channel++)
			if (pair->links[channel])
				rd_shm_link_disarm(pair->links[channel]);
}

static void shm_close(struct rd_endpoint *base)
{
	struct shm_endpoint *endpoint = (struct shm_endpoint *)base;

	while (endpoint->pairs) {
		struct pair *pair = endpoint->pairs;

		endpoint->pairs = pair->next;
		pair_destroy(pair);
	}
	for (int i = 0; i < STRANGERS_MAX; i++)
		stranger_drop(endpoint, &endpoint->strangers[i]);
	source_close(endpoint, &endpoint->listener);
	/* By hand: peers hold the same eventfd, so that closing ours does not take it out. */
	if (endpoint->bell >= 0)
		epoll_ctl(endpoint->local->epoll_fd, EPOLL_CTL_DEL, endpoint->bell, NULL);
	fd_close(&endpoint->bell);
	fd_close(&endpoint->watch);
	free(endpoint);
}

static void pair_abandon(struct pair *pair)
{
	int channels = pair->endpoint->local->settings->channels;

	fd_close(&pair->source.fd);
	fd_close(&pair->memory_fd);
	fd_close(&pair->common.bell);
	if (pair->memory)
		munmap(pair->memory, pair->memory_size);
	rd_shm_regions_finish(&pair->regions);
	for (int channel = 0; channel < channels; channel++)
		if (pair->links[channel])
			rd_shm_link_abandon(pair->links[channel]);
	free(pair);
}

static void shm_abandon(struct rd_endpoint *base)
{
	struct shm_endpoint *endpoint = (struct shm_endpoint *)base;

	while (endpoint->pairs) {
		struct pair *pair = endpoint->pairs;

		endpoint->pairs = pair->next;
		pair_abandon(pair);
	}
	for (int i = 0; i < STRANGERS_MAX; i++) {
		fd_close(&endpoint->strangers[i].source.fd);
		fd_close(&endpoint->strangers[i].fds[0]);
		fd_close(&endpoint->strangers[i].fds[1]);
	}
	fd_close(&endpoint->listener.fd);
	fd_close(&endpoint->bell);
	fd_close(&endpoint->watch);
	free(endpoint);
}

const struct rd_transport rd_transport_shm = {
	.abi = RD_TRANSPORT_ABI,
	.name = "shm",
	.reach = shm_reach,
	.listen = shm_listen,
	.open = shm_open_link,
	.advance = shm_advance,
	.arm = shm_arm,
	.disarm = shm_disarm,
	.offer = shm_offer,
	.withdraw = shm_withdraw,
	.map = shm_map,
	.close = shm_close,
	.abandon = shm_abandon,
};
