#include "net/door.h"

#include <errno.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/descriptor.h"
#include "base/error.h"
#include "base/log.h"
#include "net/socket.h"

#define REST_MS 100 /* between two attempts to accept, where that fails */
#define EVENTS_MAX 64
#define ACCEPTS_MAX 64 /* from one socket at a time: a crowd does not keep the others waiting */
/* The first byte of TLS. Greetings begin with another one. */
#define TLS_HANDSHAKE 0x16

/* In the order in which they came. */
struct queue {
	struct rd_arrival *first, **end;
	int count;
};

struct listener {
	int fd;
	struct rd_close_on_fork unshared;
};

struct rd_door {
	struct rd_door_rules rules;
	int epoll_fd;
	struct rd_close_on_fork unshared;
	struct listener listeners[RD_DOOR_LISTENERS];
	int listener_count;
	int64_t now_ms; /* of the last rd_door_serve() */
	struct queue pending, greeted;
	int error; /* of accepting; 0: none */
	int64_t error_ms, rest_ms; /* since when; the listeners are not watched until then */
	unsigned foreign, rejected;
};

/* ---- Queues -------------------------------------------------------------------------------- */

static void append(struct queue *queue, struct rd_arrival *pending)
{
	pending->next = NULL;
	*queue->end = pending;
	queue->end = &pending->next;
	queue->count++;
}

static void take_out(struct queue *queue, struct rd_arrival *pending)
{
	struct rd_arrival **at = &queue->first;

	while (*at != pending)
		at = &(*at)->next;
	*at = pending->next;
	if (!pending->next)
		queue->end = at;
	queue->count--;
}

/* ---- Closing ------------------------------------------------------------------------------- */

void rd_door_reject(struct rd_door *door, struct rd_wire *wire, const char *why)
{
	struct sockaddr_storage address = { 0 };
	socklen_t size = sizeof(address);
	char where[RD_ADDRESS_SIZE];

	door->rejected++;
	/* Those that come again and again fill no log. */
	if ((door->rejected & (door->rejected - 1)) == 0 && rd_log_on(RD_INFO, RD_NET) &&
		getpeername(wire->fd, (struct sockaddr *)&address, &size) == 0) {
		rd_address_print(where, &address);
		rd_log(RD_INFO, RD_NET, "NET/Socket : Dropped a connection from %s: %s (%u so far)",
			where, why, door->rejected);
	}
	rd_wire_close(wire);
}

/* The epoll forgets it by a call: a child of this process may hold a copy of the socket. */
static void unwatch(struct rd_door *door, struct rd_arrival *pending)
{
	epoll_ctl(door->epoll_fd, EPOLL_CTL_DEL, pending->wire.fd, NULL);
	rd_close_on_fork_remove(&pending->unshared);
}

static void drop(struct rd_door *door, struct rd_arrival *pending, const char *why)
{
	take_out(&door->pending, pending);
	unwatch(door, pending);
	rd_door_reject(door, &pending->wire, why);
	free(pending);
}

/* ---- Reading ------------------------------------------------------------------------------- */

/* Looks whether it begins with TLS. 1: that is known; 0: not yet; -1: the connection has ended. */
static int look_at_first(const struct rd_door *door, struct rd_arrival *pending)
{
	unsigned char first;
	ssize_t size;

	if (pending->known)
		return 1;
	errno = 0;
	size = recv(pending->wire.fd, &first, 1, MSG_PEEK | MSG_DONTWAIT);
	if (size <= 0)
		return size < 0 && rd_is_temporary(errno) ? 0 : -1;
	pending->known = true;
	if (first != TLS_HANDSHAKE)
		return 1;
	return rd_wire_secure(&pending->wire, true, door->rules.psk) ? -1 : 1;
}

/* 1: it has proved what it must before its greeting; 0: not yet; -1: it never will. */
static int prove(struct rd_door *door, struct rd_arrival *pending)
{
	int result = look_at_first(door, pending);

	if (result > 0)
		result = rd_wire_prove(&pending->wire);
	/* One that just leaves has proved nothing, and is not foreign for that. */
	door->foreign += result < 0 && errno == EPROTO;
	return result;
}

/* 1: the greeting is whole; 0: not yet; -1: the connection has ended; -2: it is no greeting. */
static int read_greeting(struct rd_door *door, struct rd_arrival *pending)
{
	for (;;) {
		long size = door->rules.greeting_size(pending->greeting, pending->greeting_size);
		struct iovec rest = { pending->greeting + pending->greeting_size, 0 };
		ssize_t got;

		if (size < 0 || (size_t)size > door->rules.greeting_most)
			return -2;
		if ((size_t)size <= pending->greeting_size)
			return 1;
		rest.iov_len = (size_t)size - pending->greeting_size;
		got = rd_wire_recv(&pending->wire, &rest, 1);
		if (got <= 0)
			return got < 0 && rd_is_temporary(errno) ? 0 : -1;
		pending->greeting_size += (size_t)got;
	}
}

/* False: it is no longer pending. */
static bool advance(struct rd_door *door, struct rd_arrival *pending)
{
	const char *why = "it did not prove itself";
	int result = prove(door, pending);

	if (result > 0) {
		why = "it left before it said who it is";
		result = read_greeting(door, pending);
	}
	if (result == 0)
		return true;
	if (result > 0) {
		take_out(&door->pending, pending);
		unwatch(door, pending);
		append(&door->greeted, pending);
		return false;
	}
	door->foreign += result == -2;
	drop(door, pending, result == -2 ? "it speaks something else" : why);
	return false;
}

/* ---- Accepting ----------------------------------------------------------------------------- */

static bool has_shown_secret(const struct rd_arrival *pending)
{
	const struct rd_wire *wire = &pending->wire;

	return wire->keyed || (wire->tls && rd_tls_has_shown_key(wire->tls));
}

/* The one rule of eviction. False: no connection is pending. */
static bool make_room(struct rd_door *door)
{
	struct rd_arrival *first = door->pending.first;

	while (first && has_shown_secret(first))
		first = first->next;
	if (!first)
		first = door->pending.first;
	if (!first)
		return false;
	if (advance(door, first))
		drop(door, first, "others need its place");
	return true;
}

static void add(struct rd_door *door, int fd)
{
	struct rd_arrival *pending = calloc(1, sizeof(*pending) + door->rules.greeting_most);
	struct epoll_event event = { .events = EPOLLIN, .data.ptr = pending };

	if (pending)
		pending->wire = (struct rd_wire)RD_WIRE(fd);
	if (!pending ||
		(door->rules.psk && !door->rules.takes_plain &&
			rd_wire_secure(&pending->wire, true, door->rules.psk)) ||
		epoll_ctl(door->epoll_fd, EPOLL_CTL_ADD, fd, &event)) {
		if (pending)
			rd_wire_release(&pending->wire);
		free(pending);
		close(fd);
		return;
	}
	pending->known = !door->rules.psk || !door->rules.takes_plain;
	pending->until_ms = door->now_ms + door->rules.greeting_ms;
	rd_close_on_fork_add(&pending->unshared, &pending->wire.fd);
	append(&door->pending, pending);
	/* Most have sent their greeting before they are accepted. */
	advance(door, pending);
	while (door->pending.count > door->rules.most)
		make_room(door);
}

static int watch(struct rd_door *door, int operation, int index)
{
	/* Odd, where a pointer to a pending connection is even. */
	struct epoll_event event = { .events = EPOLLIN, .data.u64 = 2 * (uint64_t)index + 1 };

	return epoll_ctl(door->epoll_fd, operation, door->listeners[index].fd, &event);
}

static void rest(struct rd_door *door, int error)
{
	if (!door->error)
		door->error_ms = door->now_ms;
	door->error = error;
	door->rest_ms = door->now_ms + REST_MS;
	for (int i = 0; i < door->listener_count; i++)
		watch(door, EPOLL_CTL_DEL, i);
}

/* accept() wants a descriptor before it looks whether a connection waits. */
static bool has_waiting(int listener)
{
	struct pollfd fd = { .fd = listener, .events = POLLIN };

	return poll(&fd, 1, 0) > 0;
}

static void accept_from(struct rd_door *door, int listener)
{
	for (int i = 0; i < ACCEPTS_MAX && !door->rest_ms; i++) {
		int fd = rd_accept(listener), error = errno;

		if (fd >= 0) {
			door->error = 0;
			add(door, fd);
		} else if (error == EAGAIN || !has_waiting(listener)) {
			door->error = 0;
			return;
		} else if (rd_is_forbidden(error) ||
			   (rd_lacks_resources(error) && !make_room(door))) {
			rest(door, error);
		}
	}
}

/* Looks again by itself: where those that waited have gone, no event shows that all is well. */
static void end_rest(struct rd_door *door)
{
	if (!door->rest_ms || door->now_ms < door->rest_ms)
		return;
	door->rest_ms = 0;
	for (int i = 0; i < door->listener_count; i++)
		if (watch(door, EPOLL_CTL_ADD, i) && errno != EEXIST)
			rest(door, errno);
	for (int i = 0; i < door->listener_count; i++)
		accept_from(door, door->listeners[i].fd);
}

void rd_door_serve(struct rd_door *door, int64_t now_ms)
{
	struct epoll_event events[EVENTS_MAX];
	int count = epoll_wait(door->epoll_fd, events, EVENTS_MAX, 0);

	door->now_ms = now_ms;
	/* Those that are here first: to accept may close one. */
	for (int i = 0; i < count; i++)
		if (events[i].data.u64 % 2 == 0)
			advance(door, events[i].data.ptr);
	for (int i = 0; i < count; i++)
		if (events[i].data.u64 % 2 == 1)
			accept_from(door, door->listeners[events[i].data.u64 / 2].fd);
	/* All have the same time, so the first one's ends first. */
	while (door->pending.first && now_ms >= door->pending.first->until_ms)
		if (advance(door, door->pending.first))
			drop(door, door->pending.first, "it did not say who it is");
	end_rest(door);
}

struct rd_arrival *rd_door_next(struct rd_door *door)
{
	struct rd_arrival *first = door->greeted.first;

	if (first)
		take_out(&door->greeted, first);
	return first;
}

/* ---- Life ---------------------------------------------------------------------------------- */

int rd_door_create(struct rd_door **made, const struct rd_door_rules *rules)
{
	struct rd_door *door = calloc(1, sizeof(*door));

	*made = NULL;
	if (!door)
		return rd_fail(RONDO_MEMORY, "no memory for new connections");
	door->rules = *rules;
	door->pending.end = &door->pending.first;
	door->greeted.end = &door->greeted.first;
	door->epoll_fd = rd_above_stderr(epoll_create1(EPOLL_CLOEXEC));
	if (door->epoll_fd < 0) {
		free(door);
		return rd_fail_errno("cannot make an epoll");
	}
	rd_close_on_fork_add(&door->unshared, &door->epoll_fd);
	*made = door;
	return 0;
}

int rd_door_listen(struct rd_door *door, int fd)
{
	struct listener *listener = &door->listeners[door->listener_count];

	if (door->listener_count == RD_DOOR_LISTENERS) {
		close(fd);
		return rd_fail(RONDO_SYSTEM, "there are %d listening sockets", RD_DOOR_LISTENERS);
	}
	listener->fd = fd;
	if (!door->rest_ms && watch(door, EPOLL_CTL_ADD, door->listener_count)) {
		close(fd);
		return rd_fail_errno("cannot watch a listening socket");
	}
	rd_close_on_fork_add(&listener->unshared, &listener->fd);
	door->listener_count++;
	return 0;
}

int rd_door_find(const struct rd_door *door, const struct sockaddr_storage *address)
{
	struct sockaddr_storage at;

	for (int i = 0; i < door->listener_count; i++)
		if (rd_local_address_get(&at, door->listeners[i].fd) == 0 &&
			rd_address_same_host((struct sockaddr *)&at, address))
			return door->listeners[i].fd;
	return -1;
}

void rd_door_close(struct rd_door *door)
{
	for (int i = 0; i < door->listener_count; i++) {
		watch(door, EPOLL_CTL_DEL, i);
		rd_close_unshared(&door->listeners[i].unshared, &door->listeners[i].fd);
	}
	door->listener_count = 0;
}

static void free_all(struct queue *queue)
{
	while (queue->first) {
		struct rd_arrival *pending = queue->first;

		take_out(queue, pending);
		rd_wire_close(&pending->wire);
		free(pending);
	}
}

void rd_door_destroy(struct rd_door *door)
{
	if (!door)
		return;
	rd_door_close(door);
	for (struct rd_arrival *at = door->pending.first; at; at = at->next)
		unwatch(door, at);
	free_all(&door->pending);
	free_all(&door->greeted);
	rd_close_unshared(&door->unshared, &door->epoll_fd);
	free(door);
}

/* ---- Asking -------------------------------------------------------------------------------- */

int rd_door_fd(const struct rd_door *door)
{
	return door->epoll_fd;
}

int64_t rd_door_deadline(const struct rd_door *door)
{
	int64_t deadline = door->pending.first ? door->pending.first->until_ms : RD_NEVER;

	return door->rest_ms ? rd_sooner(deadline, door->rest_ms) : deadline;
}

int rd_door_error(const struct rd_door *door, int64_t *since_ms)
{
	if (since_ms)
		*since_ms = door->error_ms;
	return door->error;
}

unsigned rd_door_foreign(const struct rd_door *door)
{
	return door->foreign;
}
