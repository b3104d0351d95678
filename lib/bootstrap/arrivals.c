#include "bootstrap/arrivals.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "base/deadline.h"
#include "base/error.h"
#include "bootstrap/rendezvous.h"
#include "net/codec.h"

/* ---- Those that have greeted ---------------------------------------------------------------- */

static struct rd_greeted *unlink_greeted(struct rd_arrivals *arrivals, struct rd_greeted **at)
{
	struct rd_greeted *greeted = *at;

	*at = greeted->next;
	if (!*at)
		arrivals->end = at;
	arrivals->count--;
	rd_close_on_fork_remove(&greeted->unshared);
	return greeted;
}

static void drop(struct rd_arrivals *arrivals, struct rd_greeted **at)
{
	struct rd_greeted *greeted = unlink_greeted(arrivals, at);

	rd_wire_close(&greeted->arrival.wire);
	free(greeted);
}

static bool has_ended(const struct rd_greeted *greeted)
{
	struct pollfd fd = { .fd = greeted->arrival.wire.fd, .events = POLLRDHUP };

	return poll(&fd, 1, 0) > 0 && fd.revents & (POLLRDHUP | POLLHUP | POLLERR);
}

/* Those that have ended first, then the oldest. */
static void make_room(struct rd_arrivals *arrivals)
{
	if (arrivals->count < arrivals->most)
		return;
	for (struct rd_greeted **at = &arrivals->first; *at;)
		if (has_ended(*at))
			drop(arrivals, at);
		else
			at = &(*at)->next;
	if (arrivals->count >= arrivals->most)
		drop(arrivals, &arrivals->first);
}

static bool hold(struct rd_arrivals *arrivals, const struct rd_arrival *arrival, uint64_t id)
{
	struct rd_greeted *greeted = calloc(1, sizeof(*greeted) + arrival->greeting_size);

	if (!greeted)
		return false;
	make_room(arrivals);
	greeted->id = id;
	greeted->arrival = *arrival;
	greeted->arrival.greeting =
		memcpy(greeted->greeting, arrival->greeting, arrival->greeting_size);
	rd_close_on_fork_add(&greeted->unshared, &greeted->arrival.wire.fd);
	*arrivals->end = greeted;
	arrivals->end = &greeted->next;
	arrivals->count++;
	return true;
}

struct rd_greeted *rd_arrivals_take(struct rd_arrivals *arrivals, uint64_t id)
{
	struct rd_greeted *greeted = NULL;

	pthread_mutex_lock(&arrivals->lock);
	for (struct rd_greeted **at = &arrivals->first; *at && !greeted;)
		if ((*at)->id != id)
			at = &(*at)->next;
		else if (has_ended(*at))
			drop(arrivals, at);
		else
			greeted = unlink_greeted(arrivals, at);
	pthread_mutex_unlock(&arrivals->lock);
	return greeted;
}

/* ---- Those that come ------------------------------------------------------------------------ */

/* 0: it comes for nothing that can be here. */
static uint64_t find_id(const struct rd_arrival *arrival)
{
	struct rd_control_message message;

	if (rd_control_decode(arrival->greeting, arrival->greeting_size, &message) <= 0)
		return 0;
	return message.kind == RD_CONTROL_GATHER ? message.gather.lineage : 0;
}

void rd_arrivals_serve(struct rd_arrivals *arrivals, int64_t now_ms)
{
	struct rd_arrival arrival;
	bool come = false;

	pthread_mutex_lock(&arrivals->lock);
	if (arrivals->door)
		rd_door_serve(arrivals->door, now_ms);
	while (arrivals->door && rd_door_next(arrivals->door, &arrival)) {
		uint64_t id = find_id(&arrival);

		if (!id || !hold(arrivals, &arrival, id)) {
			rd_door_reject(arrivals->door, &arrival.wire, "nothing here is its");
			continue;
		}
		come = true;
	}
	if (arrivals->door)
		arrivals->error = rd_door_error(arrivals->door, NULL);
	/* It can only fail where the counter is full, and its reader wakes all the same. */
	if ((come || arrivals->error) && arrivals->wake_fd >= 0 &&
		eventfd_write(arrivals->wake_fd, 1))
		come = false;
	pthread_mutex_unlock(&arrivals->lock);
}

int64_t rd_arrivals_deadline(struct rd_arrivals *arrivals)
{
	int64_t deadline;

	pthread_mutex_lock(&arrivals->lock);
	deadline = arrivals->door ? rd_door_deadline(arrivals->door) : RD_NEVER;
	pthread_mutex_unlock(&arrivals->lock);
	return deadline;
}

/* ---- Asking --------------------------------------------------------------------------------- */

void rd_arrivals_wake(struct rd_arrivals *arrivals, int wake_fd)
{
	pthread_mutex_lock(&arrivals->lock);
	arrivals->wake_fd = wake_fd;
	pthread_mutex_unlock(&arrivals->lock);
}

int rd_arrivals_error(struct rd_arrivals *arrivals)
{
	int error;

	pthread_mutex_lock(&arrivals->lock);
	error = arrivals->error;
	pthread_mutex_unlock(&arrivals->lock);
	return error;
}

/* ---- Life ----------------------------------------------------------------------------------- */

void rd_arrivals_init(struct rd_arrivals *arrivals)
{
	*arrivals = (struct rd_arrivals){ .wake_fd = -1 };
	arrivals->end = &arrivals->first;
	pthread_mutex_init(&arrivals->lock, NULL);
}

static int listen_with_copy(
	struct rd_arrivals *arrivals, int listen_fd, int epoll_fd, uint64_t mark)
{
	struct epoll_event event = { .events = EPOLLIN, .data.u64 = mark };
	int fd = fcntl(listen_fd, F_DUPFD_CLOEXEC, STDERR_FILENO + 1);

	if (fd < 0)
		return rd_fail_errno("cannot take the connections to this rank");
	if (rd_door_listen(arrivals->door, fd))
		return RONDO_SYSTEM;
	if (epoll_ctl(epoll_fd, EPOLL_CTL_ADD, rd_door_fd(arrivals->door), &event))
		return rd_fail_errno("cannot watch the connections to this rank");
	return 0;
}

int rd_arrivals_open(struct rd_arrivals *arrivals, int listen_fd,
	const struct rd_settings *settings, int most, int epoll_fd, uint64_t mark)
{
	struct rd_door_rules rules = { .psk = settings->has_psk ? settings->psk : NULL,
		.most = most,
		.greeting_ms = INT_MAX,
		.greeting_most = RD_FRAME_MAX,
		.greeting_size = rd_frame_size };
	int err;

	pthread_mutex_lock(&arrivals->lock);
	arrivals->most = most;
	err = rd_door_create(&arrivals->door, &rules);
	if (!err)
		err = listen_with_copy(arrivals, listen_fd, epoll_fd, mark);
	pthread_mutex_unlock(&arrivals->lock);
	if (err)
		rd_arrivals_close(arrivals, epoll_fd);
	return err;
}

void rd_arrivals_close(struct rd_arrivals *arrivals, int epoll_fd)
{
	pthread_mutex_lock(&arrivals->lock);
	while (arrivals->first)
		drop(arrivals, &arrivals->first);
	/* A child may hold a copy of the door's epoll. */
	if (arrivals->door)
		epoll_ctl(epoll_fd, EPOLL_CTL_DEL, rd_door_fd(arrivals->door), NULL);
	rd_door_destroy(arrivals->door);
	arrivals->door = NULL;
	pthread_mutex_unlock(&arrivals->lock);
}

void rd_arrivals_finish(struct rd_arrivals *arrivals)
{
	pthread_mutex_destroy(&arrivals->lock);
}

/* The fork has closed the descriptors, but for the door's epoll. */
void rd_arrivals_abandon(struct rd_arrivals *arrivals)
{
	while (arrivals->first) {
		struct rd_greeted *greeted = arrivals->first;

		arrivals->first = greeted->next;
		rd_wire_close(&greeted->arrival.wire);
		free(greeted);
	}
	rd_door_abandon(arrivals->door);
}
