#include "transports/shm/station.h"

#include <linux/membarrier.h>
#include <stdlib.h>
#include <sys/eventfd.h>
#include <sys/syscall.h>

#include "base/descriptor.h"
#include "base/error.h"
#include "transports/shared.h"
#include "transports/shm/backlog.h"
#include "transports/shm/socket.h"

/* The most rounds of events that one poll handles, so that strangers cannot delay it. */
#define POLL_ROUNDS 64

struct station {
	struct rd_shm_station base;
	int references; /* under the lock of what is shared */
	struct rd_shm_backlog backlog;
};

/* ---- Use ------------------------------------------------------------------------------------- */

void rd_shm_station_lock(struct rd_shm_station *station, const _Atomic bool *news)
{
	pthread_mutex_lock(&station->lock);
	station->reader = news;
}

/* Packets for other endpoints have woken their threads, which may not have found them yet. */
void rd_shm_station_unlock(struct rd_shm_station *station)
{
	bool others = station->others;

	station->others = false;
	pthread_mutex_unlock(&station->lock);
	if (others)
		eventfd_write(station->wake_fd, 1);
}

void rd_shm_station_connect(struct rd_shm_station *station)
{
	for (struct rd_shm_connection *at = station->connections; at; at = at->next)
		if (at->state == RD_SHM_CONNECTING)
			rd_shm_connection_connect(at);
	rd_shm_backlog_fail_awaited(&((struct station *)station)->backlog);
}

bool rd_shm_station_poll(struct rd_shm_station *station)
{
	struct epoll_event events[16];
	bool handled = true;

	for (int round = 0; handled && round < POLL_ROUNDS; round++) {
		int count = epoll_wait(station->epoll_fd, events, 16, 0);

		handled = false;
		for (int i = 0; i < count; i++) {
			const struct rd_event_source *source = events[i].data.ptr;

			handled |= source->handle(source->owner);
		}
	}
	return handled;
}

void rd_shm_station_refuse(struct rd_shm_station *station, uint64_t comm_id)
{
	for (struct rd_shm_connection *at = station->connections; at; at = at->next)
		rd_shm_connection_refuse(at, comm_id);
}

/* ---- Sleepers -------------------------------------------------------------------------------- */

static int driver_watch(const struct rd_local *local, int fd)
{
	if (rd_event_watch(local->epoll_fd, EPOLL_CTL_ADD, fd, EPOLLIN | EPOLLET, NULL))
		return rd_fail_errno("epoll_ctl");
	return 0;
}

/* Has the station wake sleepers. */
static int watch(const struct rd_shm_station *station, const struct rd_local *local)
{
	int err;

	if (local->shared)
		return rd_shared_watch(local->shared, station->epoll_fd);
	err = driver_watch(local, station->wake_fd);
	return err ? err : driver_watch(local, station->epoll_fd);
}

/* Ends that. */
static void unwatch(struct rd_shm_station *station, const struct rd_local *local)
{
	if (local->shared && station->epoll_fd >= 0)
		rd_shared_unwatch(local->shared, station->epoll_fd);
	if (!local->shared) /* explicitly: peers hold the same eventfd */
		rd_event_close(local->epoll_fd, &station->wake_fd);
	rd_shm_fd_close(&station->epoll_fd);
}

/* ---- Life ------------------------------------------------------------------------------------ */

static void destroy(struct station *station, const struct rd_local *local)
{
	struct rd_shm_connection *connection;

	while ((connection = station->base.connections)) {
		station->base.connections = connection->next;
		rd_shm_connection_flush(connection);
		rd_shm_connection_destroy(connection);
	}
	rd_shm_backlog_finish(&station->backlog);
	unwatch(&station->base, local);
	pthread_mutex_destroy(&station->base.lock);
	free(station);
}

static int start(struct station *station, const struct rd_local *local)
{
	struct rd_shm_station *base = &station->base;
	int err = rd_shm_card_make(&base->card, local->rank);

	if (err)
		return err;
	base->barriers =
		syscall(SYS_membarrier, MEMBARRIER_CMD_REGISTER_GLOBAL_EXPEDITED, 0, 0) == 0;
	base->wake_fd = local->shared ? local->shared->wake_fd
				      : rd_above_stderr(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
	base->epoll_fd = rd_above_stderr(epoll_create1(EPOLL_CLOEXEC));
	if (base->wake_fd < 0 || base->epoll_fd < 0)
		return rd_fail_errno("cannot make an eventfd and an epoll");
	err = rd_shm_backlog_listen(&station->backlog);
	return err ? err : watch(base, local);
}

static int create(struct rd_shm_station **made, const struct rd_local *local)
{
	struct station *station = calloc(1, sizeof(*station));
	int err;

	*made = NULL;

	if (!station)
		return rd_fail(RONDO_MEMORY, "no memory for a shm station");
	station->references = 1;
	station->base.wake_fd = station->base.epoll_fd = -1;
	pthread_mutex_init(&station->base.lock, NULL);
	rd_shm_backlog_init(&station->backlog, &station->base);
	err = start(station, local);
	if (err)
		destroy(station, local);
	else
		*made = &station->base;
	return err;
}

int rd_shm_station_join(struct rd_shm_station **station, const struct rd_local *local)
{
	struct rd_shared *shared = local->shared;
	int err = 0;

	if (!shared)
		return create(station, local);
	pthread_mutex_lock(&shared->stations);
	if (shared->shm)
		((struct station *)shared->shm)->references++;
	else
		err = create(&shared->shm, local);
	*station = shared->shm;
	pthread_mutex_unlock(&shared->stations);
	return err;
}

void rd_shm_station_leave(struct rd_shm_station *base, const struct rd_local *local)
{
	struct station *station = (struct station *)base;
	struct rd_shared *shared = local->shared;

	if (!shared) {
		destroy(station, local);
		return;
	}
	pthread_mutex_lock(&shared->stations);
	if (--station->references == 0) {
		shared->shm = NULL;
		destroy(station, local);
	}
	pthread_mutex_unlock(&shared->stations);
}

void rd_shm_station_abandon(struct rd_shm_station *base, const struct rd_local *local)
{
	struct station *station = (struct station *)base;
	struct rd_shm_connection *connection;

	if (--station->references > 0)
		return;
	while ((connection = base->connections)) {
		base->connections = connection->next;
		rd_shm_connection_abandon(connection);
	}
	rd_shm_backlog_abandon(&station->backlog);
	if (!local->shared)
		rd_shm_fd_close(&base->wake_fd);
	rd_shm_fd_close(&base->epoll_fd);
	free(station);
}
