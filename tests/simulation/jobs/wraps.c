/*
 * Calls of the C library, and a few of the library's own, as the linker redirects them. Outside of
 * a rank's threads they are what they were.
 */
#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/random.h>
#include <time.h>
#include <unistd.h>

#include "base/close_on_fork.h"
#include "bootstrap/control_state.h"
#include "bootstrap/peer_watch.h"
#include "bootstrap/status.h"
#include "world.h"

#define REAL(type, name, ...) \
	type __real_##name(__VA_ARGS__); \
	type __wrap_##name(__VA_ARGS__); \
	type __wrap_##name(__VA_ARGS__)

static bool is_inside(void)
{
	return fibers_rank() >= 0;
}

static int result(int error)
{
	errno = error;
	return error ? -1 : 0;
}

static int made(int fd)
{
	if (fd < 0)
		errno = -fd;
	return fd < 0 ? -1 : fd;
}

/* ---- Memory ---------------------------------------------------------------------------------- */

REAL(void *, malloc, size_t size)
{
	return memory_allocate(size);
}

REAL(void *, calloc, size_t count, size_t size)
{
	void *memory;

	if (!is_inside())
		return __real_calloc(count, size);
	memory = memory_allocate(count * size);
	return memset(memory, 0, count * size);
}

REAL(void *, realloc, void *memory, size_t size)
{
	return memory_reallocate(memory, size);
}

REAL(void, free, void *memory)
{
	memory_free(memory);
}

REAL(char *, strndup, const char *text, size_t most)
{
	size_t size = strnlen(text, most);
	char *copy = malloc(size + 1);

	memcpy(copy, text, size);
	copy[size] = '\0';
	return copy;
}

REAL(char *, strdup, const char *text)
{
	return strndup(text, strlen(text));
}

/* ---- Time, and numbers ----------------------------------------------------------------------- */

REAL(int, clock_gettime, clockid_t clock, struct timespec *now)
{
	uint64_t ns = sim.now_ns + 1000 * MS;

	if (!is_inside())
		return __real_clock_gettime(clock, now);
	now->tv_sec = (time_t)(ns / (1000 * MS));
	now->tv_nsec = (long)(ns % (1000 * MS));
	return 0;
}

REAL(ssize_t, getrandom, void *bytes, size_t size, unsigned flags)
{
	if (!is_inside())
		return __real_getrandom(bytes, size, flags);
	for (size_t i = 0; i < size; i++)
		((unsigned char *)bytes)[i] = (unsigned char)draw(&sim.run, 256);
	return (ssize_t)size;
}

/* ---- Threads --------------------------------------------------------------------------------- */

REAL(int, rd_thread_start, pthread_t *thread, size_t stack_size, void *(*run)(void *),
	void *argument)
{
	if (!is_inside())
		return __real_rd_thread_start(thread, stack_size, run, argument);
	*thread = (pthread_t)fibers_start(fibers_rank(), run, argument);
	return 0;
}

REAL(int, pthread_join, pthread_t thread, void **value)
{
	if (!is_inside())
		return __real_pthread_join(thread, value);
	fibers_join((int)thread);
	return 0;
}

REAL(int, pthread_detach, pthread_t thread)
{
	return is_inside() ? 0 : __real_pthread_detach(thread);
}

REAL(int, pthread_mutex_lock, pthread_mutex_t *lock)
{
	if (is_inside())
		fibers_lock();
	return __real_pthread_mutex_lock(lock);
}

REAL(int, pthread_mutex_unlock, pthread_mutex_t *lock)
{
	if (is_inside())
		fibers_unlock();
	return __real_pthread_mutex_unlock(lock);
}

static bool await(pthread_cond_t *condition, pthread_mutex_t *lock, uint64_t until_ns)
{
	bool woken;

	pthread_mutex_unlock(lock);
	woken = fibers_await(condition, until_ns);
	pthread_mutex_lock(lock);
	return woken;
}

REAL(int, pthread_cond_wait, pthread_cond_t *condition, pthread_mutex_t *lock)
{
	if (!is_inside())
		return __real_pthread_cond_wait(condition, lock);
	await(condition, lock, NEVER);
	return 0;
}

REAL(int, pthread_cond_timedwait, pthread_cond_t *condition, pthread_mutex_t *lock,
	const struct timespec *until)
{
	if (!is_inside())
		return __real_pthread_cond_timedwait(condition, lock, until);
	return await(condition, lock,
		       ((uint64_t)until->tv_sec - 1) * 1000 * MS + (uint64_t)until->tv_nsec)
		       ? 0
		       : ETIMEDOUT;
}

REAL(int, pthread_cond_broadcast, pthread_cond_t *condition)
{
	if (!is_inside())
		return __real_pthread_cond_broadcast(condition);
	fibers_wake(condition);
	return 0;
}

/* ---- Sockets --------------------------------------------------------------------------------- */

REAL(int, socket, int domain, int type, int protocol)
{
	return is_inside() ? made(kernel_socket()) : __real_socket(domain, type, protocol);
}

REAL(int, bind, int fd, const struct sockaddr *address, socklen_t size)
{
	return kernel_has(fd) ? result(kernel_bind(fd, address)) : __real_bind(fd, address, size);
}

REAL(int, listen, int fd, int backlog)
{
	return kernel_has(fd) ? result(kernel_listen(fd)) : __real_listen(fd, backlog);
}

REAL(int, connect, int fd, const struct sockaddr *address, socklen_t size)
{
	if (!kernel_has(fd))
		return __real_connect(fd, address, size);
	job_tick();
	return result(kernel_connect(fd, address));
}

REAL(int, accept4, int fd, struct sockaddr *address, socklen_t *size, int flags)
{
	if (!kernel_has(fd))
		return __real_accept4(fd, address, size, flags);
	job_tick();
	return made(kernel_accept(fd));
}

REAL(int, getsockname, int fd, struct sockaddr *address, socklen_t *size)
{
	return kernel_has(fd) ? result(kernel_name(fd, address, size, false))
			      : __real_getsockname(fd, address, size);
}

REAL(int, getpeername, int fd, struct sockaddr *address, socklen_t *size)
{
	return kernel_has(fd) ? result(kernel_name(fd, address, size, true))
			      : __real_getpeername(fd, address, size);
}

REAL(int, setsockopt, int fd, int level, int option, const void *value, socklen_t size)
{
	return kernel_has(fd) ? 0 : __real_setsockopt(fd, level, option, value, size);
}

/* TCP_INFO is of a socket that waits for no acknowledgement: a silence breaks one (sockets.h). */
REAL(int, getsockopt, int fd, int level, int option, void *value, socklen_t *size)
{
	int error;

	if (!kernel_has(fd))
		return __real_getsockopt(fd, level, option, value, size);
	if (level == IPPROTO_TCP && option == TCP_INFO) {
		memset(value, 0, *size);
		return 0;
	}
	if (level != SOL_SOCKET || option != SO_ERROR)
		return result(ENOPROTOOPT);
	error = kernel_error(fd);
	memcpy(value, &error, sizeof(error));
	return 0;
}

static ssize_t moved(ssize_t size)
{
	if (size < 0)
		errno = (int)-size;
	return size < 0 ? -1 : size;
}

REAL(ssize_t, recv, int fd, void *bytes, size_t size, int flags)
{
	if (!kernel_has(fd))
		return __real_recv(fd, bytes, size, flags);
	job_tick();
	return moved(kernel_recv(fd, bytes, size, flags & MSG_PEEK));
}

REAL(ssize_t, send, int fd, const void *bytes, size_t size, int flags)
{
	if (!kernel_has(fd))
		return __real_send(fd, bytes, size, flags);
	job_tick();
	return moved(kernel_send(fd, bytes, size));
}

REAL(int, shutdown, int fd, int how)
{
	return kernel_has(fd) ? result(kernel_shutdown(fd)) : __real_shutdown(fd, how);
}

REAL(int, close, int fd)
{
	if (!kernel_has(fd))
		return __real_close(fd);
	job_tick();
	return result(kernel_close(fd));
}

/* ---- Events ---------------------------------------------------------------------------------- */

REAL(int, poll, struct pollfd *fds, nfds_t count, int timeout_ms)
{
	int ready = 0;

	if (count == 0 || !kernel_has(fds[0].fd))
		return __real_poll(fds, count, timeout_ms);
	for (nfds_t i = 0; i < count; i++) {
		fds[i].revents =
			(short)(kernel_poll(fds[i].fd) & (fds[i].events | POLLERR | POLLHUP));
		ready += fds[i].revents != 0;
	}
	return ready;
}

REAL(int, eventfd, unsigned value, int flags)
{
	return is_inside() ? made(kernel_eventfd()) : __real_eventfd(value, flags);
}

REAL(int, eventfd_write, int fd, eventfd_t value)
{
	return kernel_has(fd) ? result(kernel_count_up(fd, value))
			      : __real_eventfd_write(fd, value);
}

REAL(ssize_t, write, int fd, const void *bytes, size_t size)
{
	uint64_t value;

	if (!kernel_has(fd))
		return __real_write(fd, bytes, size);
	memcpy(&value, bytes, sizeof(value));
	return result(kernel_count_up(fd, value)) ? -1 : (ssize_t)size;
}

REAL(ssize_t, read, int fd, void *bytes, size_t size)
{
	if (!kernel_has(fd))
		return __real_read(fd, bytes, size);
	return result(kernel_count_out(fd, bytes)) ? -1 : (ssize_t)size;
}

REAL(int, epoll_create1, int flags)
{
	return is_inside() ? made(kernel_epoll()) : __real_epoll_create1(flags);
}

REAL(int, epoll_ctl, int fd, int operation, int of, struct epoll_event *event)
{
	return kernel_has(fd) ? result(kernel_epoll_ctl(fd, operation, of, event))
			      : __real_epoll_ctl(fd, operation, of, event);
}

REAL(int, epoll_wait, int fd, struct epoll_event *events, int most, int timeout_ms)
{
	if (!kernel_has(fd))
		return __real_epoll_wait(fd, events, most, timeout_ms);
	job_tick();
	return kernel_epoll_wait(fd, events, most, timeout_ms);
}

/* ---- The library's own ----------------------------------------------------------------------- */

/* One list a process: here each rank is a process. */
REAL(void, rd_control_enlist, struct rd_control *control)
{
	if (!is_inside())
		__real_rd_control_enlist(control);
}

REAL(void, rd_close_on_fork_add, struct rd_close_on_fork *unshared, int *fd)
{
	if (!is_inside())
		__real_rd_close_on_fork_add(unshared, fd);
}

REAL(void, rd_close_on_fork_remove, struct rd_close_on_fork *unshared)
{
	if (!is_inside())
		__real_rd_close_on_fork_remove(unshared);
}

/* Robust futexes and names of Unix sockets are the kernel's alone. */
REAL(struct rd_watch *, rd_watch_create, const struct rd_watch_config *config)
{
	return is_inside() ? NULL : __real_rd_watch_create(config);
}

REAL(int, rd_status_open, struct rd_status *status, uint64_t launch_id, int epoll_fd, void *mark)
{
	return is_inside() ? 0 : __real_rd_status_open(status, launch_id, epoll_fd, mark);
}
