#include "bootstrap/listener.h"

#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/uio.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/error.h"
#include "bootstrap/control_message.h"
#include "bootstrap/rendezvous.h"
#include "net/codec.h"
#include "net/trunk.h"

#define GREETING_MOST 64 /* bytes of a GATHER, and of a trunk's first frame: some more */
#define GREETING_MS 10000

/* ---- Those that wait ------------------------------------------------------------------------ */

static struct rd_arrival *unlink_arrival(struct rd_arrivals *arrivals, struct rd_arrival **at)
{
	struct rd_arrival *arrival = *at;

	*at = arrival->next;
	if (!*at)
		arrivals->end = at;
	arrivals->count--;
	rd_close_on_fork_remove(&arrival->unshared);
	return arrival;
}

static void drop(struct rd_arrivals *arrivals, struct rd_arrival **at)
{
	struct rd_arrival *arrival = unlink_arrival(arrivals, at);

	rd_wire_close(&arrival->wire);
	free(arrival);
}

/* A trunk has bytes to be read, even so. */
static bool has_ended(const struct rd_arrivals *arrivals, const struct rd_arrival *arrival)
{
	struct pollfd fd = { .fd = arrival->wire.fd, .events = POLLRDHUP };

	return arrivals->kind == RD_ARRIVALS_LINEAGE && poll(&fd, 1, 0) > 0 &&
	       fd.revents & (POLLRDHUP | POLLHUP | POLLERR);
}

static void drop_ended(struct rd_arrivals *arrivals)
{
	for (struct rd_arrival **at = &arrivals->first; *at;)
		if (has_ended(arrivals, *at))
			drop(arrivals, at);
		else
			at = &(*at)->next;
}

/* tcp connects again after a reset. */
static void make_room(struct rd_arrivals *arrivals)
{
	static const struct linger none = { .l_onoff = 1 };
	struct rd_arrival **at = &arrivals->first;

	drop_ended(arrivals);
	if (arrivals->count < arrivals->most)
		return;
	while (*at && (*at)->wire.keyed)
		at = &(*at)->next;
	if (!*at)
		at = &arrivals->first;
	if (arrivals->kind == RD_ARRIVALS_TCP)
		setsockopt((*at)->wire.fd, SOL_SOCKET, SO_LINGER, &none, sizeof(none));
	drop(arrivals, at);
}

/* One that asks waits for nothing but its end. */
static void hold(struct rd_arrivals *arrivals, struct rd_arrival *arrival, bool asks)
{
	if (arrivals->count >= arrivals->most)
		make_room(arrivals);
	arrival->mark = asks;
	arrival->next = NULL;
	rd_close_on_fork_add(&arrival->unshared, &arrival->wire.fd);
	*arrivals->end = arrival;
	arrivals->end = &arrival->next;
	arrivals->count++;
}

/* It can only fail where the counter is full, and its reader wakes all the same. */
static void wake(struct rd_arrivals *arrivals)
{
	atomic_store(&arrivals->due, true);
	if (arrivals->wake_fd >= 0)
		eventfd_write(arrivals->wake_fd, 1);
}

struct rd_arrival *rd_arrivals_take(struct rd_arrivals *arrivals)
{
	struct rd_arrival *arrival = NULL;

	pthread_mutex_lock(&arrivals->listener->lock);
	for (struct rd_arrival **at = &arrivals->first; *at && !arrival;)
		if (has_ended(arrivals, *at))
			drop(arrivals, at);
		else if ((*at)->mark)
			at = &(*at)->next;
		else
			arrival = unlink_arrival(arrivals, at);
	pthread_mutex_unlock(&arrivals->listener->lock);
	return arrival;
}

void rd_arrivals_wake(struct rd_arrivals *arrivals, int wake_fd)
{
	pthread_mutex_lock(&arrivals->listener->lock);
	arrivals->wake_fd = wake_fd;
	pthread_mutex_unlock(&arrivals->listener->lock);
}

/* ---- Those that come ------------------------------------------------------------------------ */

/* For which it comes. False: for nothing that can be here, or without the proof that it needs. */
static bool classify(const struct rd_listener *listener, const struct rd_arrival *arrival,
	enum rd_arrivals_kind *kind, uint64_t *id, bool *asks)
{
	struct rd_control_message message;

	*id = 0;
	*asks = false;
	*kind = RD_ARRIVALS_TCP;
	if (arrival->greeting[0] == RD_HELLO_FIRST)
		return true;
	if (listener->has_psk && !arrival->wire.keyed)
		return false;
	*kind = RD_ARRIVALS_TRUNKS;
	*id = rd_trunk_job(arrival->greeting, arrival->greeting_size);
	if (*id)
		return true;
	*kind = RD_ARRIVALS_LINEAGE;
	if (rd_control_decode(arrival->greeting, arrival->greeting_size, &message) <= 0 ||
		message.kind != RD_CONTROL_GATHER)
		return false;
	*id = message.gather.lineage;
	*asks = message.gather.origin < 0;
	return *id != 0;
}

/* It fits the socket's buffer. Where it is lost, the other end comes again. */
static void send_left(struct rd_wire *wire)
{
	struct rd_control_message left = { .kind = RD_CONTROL_LEFT };
	unsigned char frame[RD_FRAME_MAX];
	struct iovec bytes = { frame, rd_control_encode(&left, frame) };

	if (rd_wire_send(wire, &bytes, 1) < 0)
		return;
}

static long greeting_size(const unsigned char *bytes, size_t size)
{
	return size && bytes[0] == RD_HELLO_FIRST ? RD_HELLO_SIZE : rd_frame_size(bytes, size);
}

static void take_in(struct rd_listener *listener, struct rd_arrival *arrival)
{
	struct rd_arrivals *at = listener->arrivals;
	enum rd_arrivals_kind kind;
	uint64_t id;
	bool asks, fits = classify(listener, arrival, &kind, &id, &asks);

	while (at && (!fits || at->kind != kind || at->id != id))
		at = at->next;
	if (at) {
		hold(at, arrival, asks);
		if (!asks)
			wake(at);
		return;
	}
	if (!fits || kind != RD_ARRIVALS_LINEAGE) {
		rd_door_reject(listener->door, &arrival->wire, "nothing here is its");
	} else {
		send_left(&arrival->wire);
		rd_wire_close(&arrival->wire);
	}
	free(arrival);
}

/* The thread that has set a deadline may look no more, and those of jobs sleep until theirs. */
static void wake_owners(struct rd_listener *listener, int past_error, int64_t past_deadline_ms)
{
	int error = rd_door_error(listener->door, NULL);
	bool fails = error && error != past_error;
	bool sooner = rd_door_deadline(listener->door) < past_deadline_ms;

	for (struct rd_arrivals *at = listener->arrivals; at; at = at->next)
		if (fails || (sooner && at->kind == RD_ARRIVALS_TRUNKS))
			wake(at);
}

void rd_listener_serve(struct rd_listener *listener, int64_t now_ms)
{
	struct rd_arrival *arrival;
	int64_t deadline_ms;
	int error;

	pthread_mutex_lock(&listener->lock);
	error = rd_door_error(listener->door, NULL);
	deadline_ms = rd_door_deadline(listener->door);
	rd_door_serve(listener->door, now_ms);
	while ((arrival = rd_door_next(listener->door)))
		take_in(listener, arrival);
	wake_owners(listener, error, deadline_ms);
	pthread_mutex_unlock(&listener->lock);
}

int64_t rd_listener_deadline(struct rd_listener *listener)
{
	int64_t deadline_ms;

	pthread_mutex_lock(&listener->lock);
	deadline_ms = rd_door_deadline(listener->door);
	pthread_mutex_unlock(&listener->lock);
	return deadline_ms;
}

int rd_listener_error(struct rd_listener *listener, int64_t *since_ms)
{
	int error;

	pthread_mutex_lock(&listener->lock);
	error = rd_door_error(listener->door, since_ms);
	pthread_mutex_unlock(&listener->lock);
	return error;
}

void rd_listener_reject(struct rd_listener *listener, struct rd_wire *wire, const char *why)
{
	pthread_mutex_lock(&listener->lock);
	rd_door_reject(listener->door, wire, why);
	pthread_mutex_unlock(&listener->lock);
}

/* ---- Life ----------------------------------------------------------------------------------- */

struct rd_arrivals *rd_arrivals_open(struct rd_listener *listener, enum rd_arrivals_kind kind,
	uint64_t id, int most, int wake_fd)
{
	struct rd_arrivals *arrivals = calloc(1, sizeof(*arrivals));

	if (!arrivals) {
		rd_fail(RONDO_MEMORY, "no memory for the connections to this rank");
		return NULL;
	}
	*arrivals = (struct rd_arrivals){ .listener = listener,
		.kind = kind,
		.id = id,
		.users = 1,
		.wake_fd = wake_fd,
		.most = most };
	arrivals->end = &arrivals->first;
	pthread_mutex_lock(&listener->lock);
	listener->references++;
	arrivals->next = listener->arrivals;
	listener->arrivals = arrivals;
	pthread_mutex_unlock(&listener->lock);
	return arrivals;
}

void rd_arrivals_name(struct rd_arrivals *arrivals, uint64_t id, int most)
{
	pthread_mutex_lock(&arrivals->listener->lock);
	arrivals->id = id;
	arrivals->most = most;
	pthread_mutex_unlock(&arrivals->listener->lock);
}

struct rd_arrivals *rd_arrivals_share(struct rd_arrivals *arrivals)
{
	pthread_mutex_lock(&arrivals->listener->lock);
	arrivals->users++;
	pthread_mutex_unlock(&arrivals->listener->lock);
	return arrivals;
}

static void unlink_arrivals(struct rd_arrivals *arrivals)
{
	struct rd_arrivals **at = &arrivals->listener->arrivals;

	while (*at != arrivals)
		at = &(*at)->next;
	*at = arrivals->next;
}

void rd_listener_release(struct rd_listener *listener)
{
	int left;

	if (!listener)
		return;
	pthread_mutex_lock(&listener->lock);
	left = --listener->references;
	pthread_mutex_unlock(&listener->lock);
	if (left)
		return;
	rd_door_destroy(listener->door);
	pthread_mutex_destroy(&listener->lock);
	explicit_bzero(listener->psk, sizeof(listener->psk));
	free(listener);
}

/* Those that have come and gone again take a descriptor until now. */
void rd_arrivals_release(struct rd_arrivals *arrivals)
{
	struct rd_listener *listener;
	bool ends;

	if (!arrivals)
		return;
	listener = arrivals->listener;
	pthread_mutex_lock(&listener->lock);
	ends = --arrivals->users == 0;
	if (ends)
		unlink_arrivals(arrivals);
	else
		drop_ended(arrivals);
	while (ends && arrivals->first)
		drop(arrivals, &arrivals->first);
	pthread_mutex_unlock(&listener->lock);
	if (!ends)
		return;
	free(arrivals);
	rd_listener_release(listener);
}

int rd_listener_create(struct rd_listener **made, const struct rd_settings *settings)
{
	struct rd_listener *listener = calloc(1, sizeof(*listener));
	struct rd_door_rules rules = { .psk = settings->has_psk && listener ? listener->psk : NULL,
		.takes_plain = true,
		.most = RD_PENDING_MAX + settings->size * settings->channels,
		.greeting_ms = GREETING_MS,
		.greeting_most = GREETING_MOST,
		.greeting_size = greeting_size };
	int error;

	if (!listener)
		return rd_fail(RONDO_MEMORY, "no memory for the connections to this rank");
	error = rd_door_create(&listener->door, &rules);
	if (error) {
		free(listener);
		return error;
	}
	memcpy(listener->psk, settings->psk, sizeof(listener->psk));
	listener->has_psk = settings->has_psk;
	listener->unreachable_ms = settings->unreachable_ms;
	pthread_mutex_init(&listener->lock, NULL);
	listener->references = 1;
	*made = listener;
	return 0;
}

int rd_listener_watch(struct rd_listener *listener, int epoll_fd, uint64_t mark)
{
	struct epoll_event event = { .events = EPOLLIN, .data.u64 = mark };

	if (epoll_ctl(epoll_fd, EPOLL_CTL_ADD, rd_door_fd(listener->door), &event))
		return rd_fail_errno("cannot watch for other ranks");
	return 0;
}

/* A child may hold a copy of the door's epoll. */
void rd_listener_unwatch(struct rd_listener *listener, int epoll_fd)
{
	epoll_ctl(epoll_fd, EPOLL_CTL_DEL, rd_door_fd(listener->door), NULL);
}

/* ---- Lineages ------------------------------------------------------------------------------- */

/* Under the lock. */
static int open_place(struct rd_listener *listener, const struct sockaddr_storage *near)
{
	int fd = rd_door_find(listener->door, near), err = 0;

	if (fd < 0) {
		fd = rd_listen_at(near, 0);
		err = fd < 0 ? 0 : rd_door_listen(listener->door, fd);
	}
	if (err)
		return err;
	if (fd >= 0 && rd_socket_place(fd, listener->address, &listener->port) == 0 &&
		rd_local_address_get(&listener->near, fd) == 0)
		return 0;
	return rd_fail_errno("cannot listen for other ranks");
}

int rd_lineage_place(struct rd_lineage *lineage, struct rd_listener *listener, int origin,
	const struct sockaddr_storage *near)
{
	struct rd_lineage_address *place = &lineage->place;
	int err = 0;

	if (lineage->id)
		return 0;
	pthread_mutex_lock(&listener->lock);
	if (near)
		err = open_place(listener, near);
	place->origin = origin;
	place->port = listener->port;
	memcpy(place->address, listener->address, sizeof(place->address));
	pthread_mutex_unlock(&listener->lock);
	return err;
}

int rd_lineage_begin(
	struct rd_lineage *lineage, uint64_t id, struct rd_listener *listener, int most)
{
	lineage->id = id;
	lineage->arrivals = rd_arrivals_open(listener, RD_ARRIVALS_LINEAGE, id, most, -1);
	return lineage->arrivals ? 0 : RONDO_MEMORY;
}

void rd_lineage_join(struct rd_lineage *lineage, const struct rd_lineage *of)
{
	*lineage = (struct rd_lineage){
		.id = of->id, .place = of->place, .arrivals = rd_arrivals_share(of->arrivals)
	};
}

void rd_lineage_end(struct rd_lineage *lineage)
{
	rd_arrivals_release(lineage->arrivals);
	lineage->arrivals = NULL;
}

void rd_lineage_meet(struct rd_settings *settings, const struct rd_lineage_address *place)
{
	settings->rendezvous_fd = -1;
	settings->port = (int)place->port;
	if (place->address[0])
		snprintf(settings->address, sizeof(settings->address), "%s", place->address);
}
