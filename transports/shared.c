#include "transports/shared.h"

#include <errno.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "base/descriptor.h"
#include "base/error.h"
#include "bootstrap/listener.h"

static int add(int epoll_fd, int fd)
{
	struct epoll_event event = { .events = EPOLLIN | EPOLLET };

	return epoll_ctl(epoll_fd, EPOLL_CTL_ADD, fd, &event);
}

/* ---- Epolls, under the lock ------------------------------------------------------------------ */

/* -1, with errno: none. */
static int make_epoll(const struct rd_shared *shared)
{
	int fd = rd_above_stderr(epoll_create1(EPOLL_CLOEXEC)), failed, error;

	if (fd < 0)
		return -1;
	failed = add(fd, shared->wake_fd);
	for (int i = 0; i < shared->watched_count && !failed; i++)
		failed = add(fd, shared->watched[i]);
	if (!failed)
		return fd;
	error = errno;
	close(fd);
	errno = error;
	return -1;
}

static int borrow(struct rd_shared *shared)
{
	struct rd_shared_epoll *more;
	int fd;

	for (int i = 0; i < shared->epoll_count; i++) {
		struct rd_shared_epoll *epoll = &shared->epolls[i];

		if (epoll->borrowed)
			continue;
		epoll->borrowed = true;
		return epoll->fd;
	}
	more = realloc(shared->epolls, ((size_t)shared->epoll_count + 1) * sizeof(*more));
	if (!more)
		return -1;
	shared->epolls = more;
	fd = make_epoll(shared);
	if (fd >= 0)
		more[shared->epoll_count++] = (struct rd_shared_epoll){ fd, true };
	return fd;
}

static struct rd_shared_epoll *find(struct rd_shared *shared, int fd)
{
	struct rd_shared_epoll *epoll = shared->epolls;

	while (epoll->fd != fd)
		epoll++;
	return epoll;
}

static int watch(struct rd_shared *shared, int fd)
{
	int *more = realloc(shared->watched, ((size_t)shared->watched_count + 1) * sizeof(*more));
	int failed;

	if (!more)
		return -1;
	shared->watched = more;
	failed = add(shared->control_fd, fd);
	for (int i = 0; i < shared->epoll_count && !failed; i++)
		failed = add(shared->epolls[i].fd, fd);
	if (!failed)
		more[shared->watched_count++] = fd;
	return failed;
}

/* ---- Functions ------------------------------------------------------------------------------- */

int rd_shared_borrow(struct rd_shared *shared)
{
	int fd;

	pthread_mutex_lock(&shared->lock);
	fd = borrow(shared);
	pthread_mutex_unlock(&shared->lock);
	return fd;
}

void rd_shared_give_back(struct rd_shared *shared, int epoll_fd)
{
	pthread_mutex_lock(&shared->lock);
	find(shared, epoll_fd)->borrowed = false;
	pthread_mutex_unlock(&shared->lock);
}

void rd_shared_close(struct rd_shared *shared, int epoll_fd)
{
	pthread_mutex_lock(&shared->lock);
	*find(shared, epoll_fd) = shared->epolls[--shared->epoll_count];
	close(epoll_fd);
	pthread_mutex_unlock(&shared->lock);
}

int rd_shared_watch(struct rd_shared *shared, int fd)
{
	int failed;

	pthread_mutex_lock(&shared->lock);
	failed = watch(shared, fd);
	pthread_mutex_unlock(&shared->lock);
	return failed ? rd_fail_errno("cannot watch a descriptor") : 0;
}

void rd_shared_unwatch(struct rd_shared *shared, int fd)
{
	int kept = 0;

	pthread_mutex_lock(&shared->lock);
	epoll_ctl(shared->control_fd, EPOLL_CTL_DEL, fd, NULL);
	for (int i = 0; i < shared->epoll_count; i++)
		epoll_ctl(shared->epolls[i].fd, EPOLL_CTL_DEL, fd, NULL);
	for (int i = 0; i < shared->watched_count; i++)
		if (shared->watched[i] != fd)
			shared->watched[kept++] = shared->watched[i];
	shared->watched_count = kept;
	pthread_mutex_unlock(&shared->lock);
}

int rd_shared_listen(
	struct rd_shared *shared, struct rd_listener **listener, const struct rd_settings *settings)
{
	int error;

	pthread_mutex_lock(&shared->lock);
	error = shared->listener ? 0 : rd_listener_create(&shared->listener, settings);
	*listener = shared->listener;
	shared->listening += !error;
	pthread_mutex_unlock(&shared->lock);
	return error;
}

void rd_shared_unlisten(struct rd_shared *shared)
{
	struct rd_listener *listener = NULL;

	pthread_mutex_lock(&shared->lock);
	if (--shared->listening == 0) {
		listener = shared->listener;
		shared->listener = NULL;
	}
	pthread_mutex_unlock(&shared->lock);
	rd_listener_release(listener);
}

/* ---- Life ------------------------------------------------------------------------------------ */

static void free_all(struct rd_shared *shared)
{
	for (int i = 0; i < shared->epoll_count; i++)
		close(shared->epolls[i].fd);
	if (shared->control_fd >= 0)
		close(shared->control_fd);
	if (shared->wake_fd >= 0)
		close(shared->wake_fd);
	free(shared->epolls);
	free(shared->watched);
	free(shared);
}

int rd_shared_make(struct rd_shared **made)
{
	struct rd_shared *shared = calloc(1, sizeof(*shared));

	if (!shared)
		return rd_fail(RONDO_MEMORY, "no memory for what the comms of a job share");
	shared->references = 1;
	shared->control_fd = -1;
	shared->wake_fd = rd_above_stderr(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
	if (shared->wake_fd >= 0)
		shared->control_fd = make_epoll(shared);
	if (shared->control_fd < 0) {
		rd_fail_errno("cannot make an eventfd and an epoll");
		free_all(shared);
		return RONDO_SYSTEM;
	}
	/* The epoll of the first to sleep: without it, the number of descriptors would depend on
	   whether somebody has slept. */
	if (borrow(shared) >= 0)
		shared->epolls[0].borrowed = false;
	pthread_mutex_init(&shared->lock, NULL);
	pthread_mutex_init(&shared->stations, NULL);
	*made = shared;
	return 0;
}

struct rd_shared *rd_shared_keep(struct rd_shared *shared)
{
	pthread_mutex_lock(&shared->lock);
	shared->references++;
	pthread_mutex_unlock(&shared->lock);
	return shared;
}

void rd_shared_release(struct rd_shared *shared)
{
	int left;

	if (!shared)
		return;
	pthread_mutex_lock(&shared->lock);
	left = --shared->references;
	pthread_mutex_unlock(&shared->lock);
	if (left)
		return;
	pthread_mutex_destroy(&shared->lock);
	pthread_mutex_destroy(&shared->stations);
	free_all(shared);
}

void rd_shared_abandon(struct rd_shared *shared)
{
	/* The rule of base/fork.h. */
	if (!shared || pthread_mutex_trylock(&shared->lock))
		return;
	if (--shared->references == 0)
		free_all(shared);
	else
		pthread_mutex_unlock(&shared->lock);
}
