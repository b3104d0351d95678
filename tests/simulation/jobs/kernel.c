#include "kernel.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <poll.h>
#include <string.h>

#include "world.h"

#define DESCRIPTORS 1024
#define FIRST 100000 /* above those of this process */
#define ITEMS 48 /* of an epoll */
#define BACKLOG 64
#define FIRST_PORT 30000
#define FIRST_FOREIGN (FIRST_PORT + SOCKETS_MAX)

enum kind { NONE, SOCKET, LISTENER, EPOLL, EVENT };

static struct descriptor {
	enum kind kind;
	int rank;
	int port; /* of this end; 0: not bound */
	/* SOCKET: */
	int socket; /* of sockets.h; -1: not connected */
	int peer_port, peer_rank;
	bool resets; /* when it is closed */
	bool failed; /* the error of its end has been returned, once */
	bool shut;
	/* LISTENER: */
	int backlog[BACKLOG], backlog_count;
	/* EPOLL: */
	struct item {
		int fd;
		struct epoll_event event;
	} items[ITEMS];
	int item_count;
	/* EVENT: */
	uint64_t counter;
} descriptors[DESCRIPTORS];
static int highest; /* descriptors below may be in use */
static int ports;
static signed char rank_at[FIRST_PORT]; /* by port above the first: the rank that has, or had, it */
static int dialled_to[SOCKETS_MAX]; /* by socket: the port */
static int dialled_from[SOCKETS_MAX];

/* ---- Descriptors ----------------------------------------------------------------------------- */

static struct descriptor *at(int fd)
{
	return &descriptors[fd - FIRST];
}

bool kernel_has(int fd)
{
	return fd >= FIRST && fd < FIRST + DESCRIPTORS;
}

/* The lowest free number, as the kernel's. */
static int add(enum kind kind)
{
	int number = 0;

	while (number < DESCRIPTORS && descriptors[number].kind)
		number++;
	if (number == DESCRIPTORS) {
		sim_fail("all descriptors are in use");
		return -EMFILE;
	}
	if (number >= highest)
		highest = number + 1;
	memset(&descriptors[number], 0, sizeof(descriptors[number]));
	descriptors[number].kind = kind;
	descriptors[number].rank = fibers_rank();
	descriptors[number].socket = -1;
	return FIRST + number;
}

int kernel_count(int rank)
{
	int count = 0;

	for (int i = 0; i < highest; i++)
		count += descriptors[i].kind && descriptors[i].rank == rank;
	return count;
}

/* Only the owner's own calls reach a descriptor. */
static struct descriptor *find(int fd, enum kind kind)
{
	struct descriptor *descriptor = at(fd);

	if (descriptor->kind == kind && descriptor->rank == fibers_rank())
		return descriptor;
	sim_fail("rank %d uses descriptor %d, which is not its own", fibers_rank(), fd - FIRST);
	fibers_sleep(NEVER / 2);
	return NULL;
}

/* ---- Readiness ------------------------------------------------------------------------------- */

static uint32_t socket_events(const struct descriptor *descriptor)
{
	const struct sim_socket *socket;
	uint32_t events = 0;

	if (descriptor->socket < 0)
		return EPOLLOUT | EPOLLHUP;
	socket = sockets_at(descriptor->socket);
	if (!socket->connected && !socket->error)
		return 0;
	if (socket->in.arrived > 0 || socket->in.ended)
		events |= EPOLLIN;
	if (socket->in.ended)
		events |= EPOLLRDHUP;
	if (socket->error || (socket->in.ended && socket->in.error))
		events |= EPOLLERR | EPOLLHUP | EPOLLIN | EPOLLOUT;
	if (sockets_have_room(descriptor->socket))
		events |= EPOLLOUT;
	return events;
}

static uint32_t events_of(const struct descriptor *descriptor)
{
	switch (descriptor->kind) {
	case SOCKET:
		return socket_events(descriptor);
	case LISTENER:
		return descriptor->backlog_count ? EPOLLIN : 0;
	case EVENT:
		return EPOLLOUT | (descriptor->counter ? EPOLLIN : 0);
	case EPOLL:
		for (int i = 0; i < descriptor->item_count; i++) {
			const struct item *item = &descriptor->items[i];

			if (events_of(at(item->fd)) & item->event.events)
				return EPOLLIN;
		}
		return 0;
	default:
		return 0;
	}
}

bool kernel_is_ready(int fd)
{
	return events_of(at(fd)) != 0;
}

short kernel_poll(int fd)
{
	uint32_t events = events_of(at(fd));

	return (short)((events & EPOLLIN ? POLLIN : 0) | (events & EPOLLOUT ? POLLOUT : 0) |
		       (events & EPOLLRDHUP ? POLLRDHUP : 0) | (events & EPOLLHUP ? POLLHUP : 0) |
		       (events & EPOLLERR ? POLLERR : 0));
}

/* ---- The world's part of sockets ------------------------------------------------------------ */

static uint64_t arrival(void *context)
{
	(void)context;
	return sim.now_ns + sim_delay(job.network_ns);
}

static uint64_t cut(void *context, int a, int b)
{
	(void)context;
	return sim_cut(a, b);
}

static bool silent(void *context, int a, int b)
{
	(void)context;
	return sim_silent(a, b, JOB_UNREACHABLE_MS);
}

/* That has this port; NULL. */
static struct descriptor *listener_at(int port, int rank)
{
	for (int i = 0; i < highest; i++)
		if (descriptors[i].kind == LISTENER &&
			(port ? descriptors[i].port == port : descriptors[i].rank == rank))
			return &descriptors[i];
	return NULL;
}

static enum socket_answer answer(void *context, int socket)
{
	const struct sim_socket *near = sockets_at(socket);
	const struct descriptor *listener = listener_at(dialled_to[socket], -1);

	(void)context;
	return listener && listener->backlog_count < BACKLOG &&
			       !sim_rejects(near->owner, near->toward)
		       ? SOCKET_ACCEPTS
		       : SOCKET_REFUSES;
}

static void queue(void *context, int socket)
{
	const struct sim_socket *end = sockets_at(socket);
	struct descriptor *listener =
		listener_at(end->peer < 0 ? 0 : dialled_to[end->peer], end->owner);

	(void)context;
	if (!listener || listener->backlog_count == BACKLOG) {
		sockets_close(socket, ECONNRESET);
		return;
	}
	listener->backlog[listener->backlog_count++] = socket;
	fibers_stir(end->owner);
}

static void touch(void *context, int socket)
{
	(void)context;
	fibers_stir(sockets_at(socket)->owner);
}

void kernel_begin(void)
{
	static const struct socket_rules rules = { .arrival = arrival,
		.cut = cut,
		.silent = silent,
		.answer = answer,
		.accept = queue,
		.touch = touch };

	memset(descriptors, 0, sizeof(descriptors[0]) * (size_t)highest);
	highest = 0;
	ports = FIRST_PORT;
	sockets_begin(&rules);
}

/* ---- Faults ---------------------------------------------------------------------------------- */

static void close_one(struct descriptor *descriptor, bool vanishes)
{
	const struct pipe *in;

	for (int i = 0; i < descriptor->backlog_count && descriptor->kind == LISTENER; i++)
		if (!vanishes)
			sockets_close(descriptor->backlog[i], ECONNRESET);
	if (descriptor->kind == SOCKET && descriptor->socket >= 0 && !vanishes) {
		in = &sockets_at(descriptor->socket)->in;
		/* Bytes that nobody has read make a reset. */
		sockets_close(descriptor->socket,
			descriptor->resets || (!descriptor->shut && in->arrived > 0 && !in->ended)
				? ECONNRESET
				: 0);
	}
	descriptor->kind = NONE;
}

void kernel_close_all(int rank, bool vanishes)
{
	for (int i = 0; i < highest; i++)
		if (descriptors[i].kind && descriptors[i].rank == rank)
			close_one(&descriptors[i], vanishes);
}

/* Within a host nothing resets. */
static bool crosses(const struct sim_socket *socket)
{
	return socket->open && socket->peer >= 0 &&
	       sim.hosts[socket->owner] != sim.hosts[socket->toward];
}

static void reset_one(int number)
{
	const struct sim_socket *socket = sockets_at(number);

	job.ranks[socket->owner].cut_off = job.ranks[socket->toward].cut_off = true;
	sockets_break(number, ECONNRESET);
}

void kernel_reset(int rank)
{
	for (int i = 0; i < sockets_count(); i++)
		if (sockets_at(i)->owner == rank && crosses(sockets_at(i)))
			reset_one(i);
}

void kernel_reject(void)
{
	for (int i = 0; i < sockets_count(); i++)
		if (crosses(sockets_at(i)) &&
			sim_rejects(sockets_at(i)->owner, sockets_at(i)->toward))
			reset_one(i);
}

void kernel_intrude(int rank, int kind)
{
	struct rd_control_message message = { .kind = RD_CONTROL_READY };
	unsigned char frame[RD_FRAME_MAX];
	size_t size = rd_control_encode(&message, frame);

	for (size_t i = 0; i < size && kind == 1; i++)
		frame[i] = (unsigned char)draw(&sim.run, 256);
	sockets_intrude(rank, frame,
		kind == 0   ? 0
		: kind == 2 ? size / 2
			    : size,
		draw_one_in(&sim.run, 2));
}

/* ---- Sockets --------------------------------------------------------------------------------- */

static int host_of_address(const struct sockaddr_in *in)
{
	return (int)(ntohl(in->sin_addr.s_addr) & 0xff) - 1;
}

static void name(struct sockaddr *address, int host, int port)
{
	struct sockaddr_in in = { .sin_family = AF_INET,
		.sin_port = htons((uint16_t)port),
		.sin_addr.s_addr = htonl(0x0a000001u + (uint32_t)host) };

	memcpy(address, &in, sizeof(in));
}

int kernel_socket(void)
{
	return add(SOCKET);
}

int kernel_bind(int fd, const struct sockaddr *address)
{
	const struct sockaddr_in *in = (const struct sockaddr_in *)address;
	struct descriptor *descriptor = find(fd, SOCKET);

	if (host_of_address(in) != sim.hosts[descriptor->rank])
		return EADDRNOTAVAIL;
	if (in->sin_port && listener_at(ntohs(in->sin_port), -1))
		return EADDRINUSE;
	if (in->sin_port) {
		descriptor->port = ntohs(in->sin_port);
		return 0;
	}
	rank_at[ports - FIRST_PORT] = (signed char)descriptor->rank;
	descriptor->port = ports++;
	return 0;
}

int kernel_listen(int fd)
{
	find(fd, SOCKET)->kind = LISTENER;
	return 0;
}

int kernel_connect(int fd, const struct sockaddr *address)
{
	const struct sockaddr_in *in = (const struct sockaddr_in *)address;
	struct descriptor *descriptor = find(fd, SOCKET);
	int port = ntohs(in->sin_port);

	if (address->sa_family == AF_UNSPEC) {
		descriptor->resets = true;
		return 0;
	}
	descriptor->port = ports++;
	descriptor->peer_port = port;
	descriptor->peer_rank = port == KERNEL_PORT ? 0 : rank_at[port - FIRST_PORT];
	descriptor->socket = sockets_dial(descriptor->rank, descriptor->peer_rank);
	sim_trace(descriptor->rank, "connects to rank %d, port %d", descriptor->peer_rank, port);
	dialled_to[descriptor->socket] = descriptor->peer_port;
	dialled_from[descriptor->socket] = descriptor->port;
	return EINPROGRESS;
}

int kernel_accept(int fd)
{
	struct descriptor *listener = find(fd, LISTENER), *descriptor;
	int socket, peer, made;

	if (listener->backlog_count == 0)
		return -EAGAIN;
	socket = listener->backlog[0];
	memmove(listener->backlog, listener->backlog + 1,
		sizeof(int) * (size_t)--listener->backlog_count);
	made = add(SOCKET);
	if (made < 0)
		return made;
	descriptor = at(made);
	peer = sockets_at(socket)->peer;
	descriptor->socket = socket;
	descriptor->port = listener->port;
	descriptor->peer_rank = sockets_at(socket)->toward;
	descriptor->peer_port = peer < 0 ? FIRST_FOREIGN : dialled_from[peer];
	return made;
}

int kernel_name(int fd, struct sockaddr *address, socklen_t *size, bool of_peer)
{
	const struct descriptor *descriptor = at(fd);
	int rank = of_peer ? descriptor->peer_rank : descriptor->rank;

	if (of_peer && (descriptor->kind != SOCKET || descriptor->socket < 0 ||
			       !sockets_at(descriptor->socket)->connected))
		return ENOTCONN;
	/* A foreign connection is from a host of its own. */
	name(address, rank < 0 ? JOB_RANKS : sim.hosts[rank],
		of_peer ? descriptor->peer_port : descriptor->port);
	*size = sizeof(struct sockaddr_in);
	return 0;
}

int kernel_error(int fd)
{
	const struct descriptor *descriptor = find(fd, SOCKET);

	return descriptor->socket < 0 ? ENOTCONN : sockets_at(descriptor->socket)->error;
}

/* The first call returns the error of the end; later ones show that there is an end. */
static ssize_t end_of(struct descriptor *descriptor, int later)
{
	int error = sockets_at(descriptor->socket)->in.error;

	if (descriptor->failed)
		error = later;
	descriptor->failed = true;
	return -error;
}

/* Some reads are short. */
ssize_t kernel_recv(int fd, void *bytes, size_t size, bool peeks)
{
	struct descriptor *descriptor = find(fd, SOCKET);
	struct sim_socket *socket = sockets_at(descriptor->socket);
	struct pipe *in = &socket->in;

	if (size > in->arrived)
		size = in->arrived;
	if (size == 0 && in->ended)
		return end_of(descriptor, 0);
	if (size == 0)
		return socket->connected ? -EAGAIN : -ENOTCONN;
	if (size > 1 && !peeks && draw_one_in(&sim.run, 16))
		size = 1 + draw(&sim.run, size);
	memcpy(bytes, in->bytes, size);
	if (peeks)
		return (ssize_t)size;
	in->size -= size;
	in->arrived -= size;
	memmove(in->bytes, in->bytes + size, in->size);
	if (socket->peer >= 0)
		fibers_stir(sockets_at(socket->peer)->owner);
	return (ssize_t)size;
}

ssize_t kernel_send(int fd, const void *bytes, size_t size)
{
	struct descriptor *descriptor = find(fd, SOCKET);
	const struct sim_socket *socket = sockets_at(descriptor->socket);
	size_t most = draw_one_in(&sim.run, 16) ? 1 + draw(&sim.run, size) : size;

	if (!socket->connected)
		return -EAGAIN;
	if (socket->in.ended && socket->in.error)
		return end_of(descriptor, EPIPE);
	if (!sockets_have_room(descriptor->socket))
		return -EAGAIN;
	if (most > RD_FRAME_MAX)
		most = RD_FRAME_MAX;
	sockets_write(descriptor->socket, bytes, most);
	return (ssize_t)most;
}

int kernel_shutdown(int fd)
{
	find(fd, SOCKET)->shut = true;
	return 0;
}

static void forget(int fd)
{
	for (int i = 0; i < highest; i++)
		for (int k = 0; k < descriptors[i].item_count && descriptors[i].kind == EPOLL; k++)
			if (descriptors[i].items[k].fd == fd)
				descriptors[i].items[k--] =
					descriptors[i].items[--descriptors[i].item_count];
}

int kernel_close(int fd)
{
	if (!at(fd)->kind || at(fd)->rank != fibers_rank()) {
		sim_fail("rank %d closes a descriptor that is not its own", fibers_rank());
		return EBADF;
	}
	forget(fd);
	close_one(at(fd), false);
	return 0;
}

/* ---- Eventfds and epolls --------------------------------------------------------------------- */

int kernel_eventfd(void)
{
	return add(EVENT);
}

int kernel_count_up(int fd, uint64_t by)
{
	struct descriptor *descriptor = find(fd, EVENT);

	descriptor->counter += by;
	fibers_stir(descriptor->rank);
	return 0;
}

int kernel_count_out(int fd, uint64_t *value)
{
	struct descriptor *descriptor = find(fd, EVENT);

	*value = descriptor->counter;
	descriptor->counter = 0;
	return *value ? 0 : EAGAIN;
}

int kernel_epoll(void)
{
	return add(EPOLL);
}

int kernel_epoll_ctl(int fd, int operation, int of, const struct epoll_event *event)
{
	struct descriptor *epoll = find(fd, EPOLL);
	int i = 0;

	if (!kernel_has(of) || !at(of)->kind)
		return EBADF;
	while (i < epoll->item_count && epoll->items[i].fd != of)
		i++;
	if (operation == EPOLL_CTL_ADD ? i < epoll->item_count : i == epoll->item_count)
		return operation == EPOLL_CTL_ADD ? EEXIST : ENOENT;
	if (operation == EPOLL_CTL_DEL) {
		epoll->items[i] = epoll->items[--epoll->item_count];
		return 0;
	}
	if (i == ITEMS) {
		sim_fail("an epoll has %d descriptors", ITEMS);
		return ENOSPC;
	}
	epoll->items[i] = (struct item){ of, *event };
	epoll->items[i].event.events |= EPOLLERR | EPOLLHUP;
	if (operation == EPOLL_CTL_ADD)
		epoll->item_count++;
	fibers_stir(epoll->rank);
	return 0;
}

/* From a random one on. */
static int collect(struct descriptor *epoll, struct epoll_event *events, int most)
{
	int count = 0, first = (int)draw(&sim.run, (uint64_t)epoll->item_count);

	for (int i = 0; i < epoll->item_count && count < most; i++) {
		struct item *item = &epoll->items[(first + i) % epoll->item_count];
		uint32_t ready = events_of(at(item->fd)) & item->event.events;

		if (!ready)
			continue;
		events[count].events = ready;
		events[count++].data = item->event.data;
		if (item->event.events & EPOLLONESHOT)
			item->event.events = 0;
	}
	return count;
}

int kernel_epoll_wait(int fd, struct epoll_event *events, int most, int timeout_ms)
{
	struct descriptor *epoll = find(fd, EPOLL);
	int count = collect(epoll, events, most);

	if (count > 0 || timeout_ms == 0)
		return count;
	fibers_poll(fd, timeout_ms < 0 ? NEVER : sim.now_ns + (uint64_t)timeout_ms * MS);
	return collect(epoll, events, most);
}
