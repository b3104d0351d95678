/* Strangers at the sockets of a communicator that is at work: they are no sign of life of a peer.
 */
#include <criterion/criterion.h>
#include <poll.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "world.h"

#define SILENCE_MS 1500
#define NOBODY 65534
#define FDS 1024

/* The socket on which rank 0 listens. */
struct listener {
	struct sockaddr_storage address;
	uint64_t size; /* 0: nowhere */
};

static bool is_data_socket(int fd, const struct sockaddr_storage *address)
{
	const struct sockaddr_un *local = (const struct sockaddr_un *)address;
	socklen_t size = sizeof(int);
	int listens = 0;

	if (getsockopt(fd, SOL_SOCKET, SO_ACCEPTCONN, &listens, &size) || !listens)
		return false;
	return address->ss_family == AF_INET ||
	       (address->ss_family == AF_UNIX && !memcmp(local->sun_path, "\0rondo-", 7));
}

/* Finds the last one in this process. */
static struct listener find_listener(void)
{
	struct listener listener = { .size = 0 };

	for (int fd = 0; fd < FDS; fd++) {
		struct sockaddr_storage address = { 0 };
		socklen_t size = sizeof(address);

		if (getsockname(fd, (struct sockaddr *)&address, &size) == 0 &&
			is_data_socket(fd, &address))
			listener = (struct listener){ address, size };
	}
	return listener;
}

static int find_listeners(struct rank_env *env, struct listener *listener)
{
	*listener = find_listener();
	TRY(rondo_broadcast(env->comm, listener, listener, sizeof(*listener), RONDO_U8, 0, NULL));
	return listener->size ? 0 : world_report(env, "rank 0 listens nowhere");
}

static int connect_to(const struct listener *listener)
{
	int type = listener->address.ss_family == AF_UNIX ? SOCK_SEQPACKET : SOCK_STREAM;
	int fd = socket(listener->address.ss_family, type | SOCK_CLOEXEC, 0);

	if (fd >= 0)
		connect(fd, (const struct sockaddr *)&listener->address, (socklen_t)listener->size);
	return fd;
}

/* Until the pipe is closed: connects as a silent stranger, and as one that hangs up. */
static void be_strangers(const struct listener *listener, int pipe_fd)
{
	struct pollfd end = { .fd = pipe_fd, .events = POLLIN };
	int silent = -1;

	if (geteuid() == 0 && setuid(NOBODY))
		_exit(1);
	while (poll(&end, 1, 50) == 0) {
		close(connect_to(listener));
		close(silent);
		silent = connect_to(listener);
	}
	_exit(0);
}

/* Rank 1 stays away from a call, in good health, until rank 0 has noticed. */
static int stay_away(struct rank_env *env)
{
	while (rondo_comm_error(env->comm) == 0)
		poll(NULL, 0, 20);
	return 0;
}

static int call_in_vain(struct rank_env *env)
{
	int err = rondo_barrier(env->comm, NULL);

	if (err != RONDO_TIMEOUT || !strstr(rondo_last_error(), "rank 1"))
		return world_report(env, "%s: %s", rondo_error_name(err), rondo_last_error());
	return 0;
}

static int wait_among_strangers(struct rank_env *env)
{
	struct listener listener;
	int ends[2], status, err = find_listeners(env, &listener);
	pid_t pid;

	if (err)
		return err;
	if (env->rank == 0)
		return call_in_vain(env);
	if (pipe(ends))
		return world_report(env, "no pipe");
	pid = fork();
	if (pid == 0) {
		close(ends[1]);
		be_strangers(&listener, ends[0]);
	}
	close(ends[0]);
	err = stay_away(env);
	close(ends[1]);
	if (waitpid(pid, &status, 0) != pid || status != 0)
		return world_report(env, "the strangers ended with %x", status);
	return err;
}

static void run(const char *transport, int (*body)(struct rank_env *env))
{
	WORLD_TRY(body, .size = 2, .transport = transport, .timeout_ms = SILENCE_MS,
		.limit_ms = 20000);
}

Test(strangers, at_a_data_port_are_no_sign_of_life, .timeout = 60)
{
	run("tcp", wait_among_strangers);
}

Test(strangers, at_an_abstract_socket_are_no_sign_of_life, .timeout = 60)
{
	run("shm", wait_among_strangers);
}

/* ---- Out of descriptors -------------------------------------------------------------------- */

static int64_t ms_of(clockid_t clock)
{
	struct timespec now;

	clock_gettime(clock, &now);
	return now.tv_sec * INT64_C(1000) + now.tv_nsec / 1000000;
}

static bool leave_no_descriptor(void)
{
	int lowest = dup(STDERR_FILENO);
	struct rlimit limit;

	close(lowest);
	if (getrlimit(RLIMIT_NOFILE, &limit))
		return false;
	limit.rlim_cur = (rlim_t)lowest;
	return setrlimit(RLIMIT_NOFILE, &limit) == 0 && dup(STDERR_FILENO) < 0;
}

/* A connection waits in the backlog meanwhile. */
static int wait_without_descriptors(struct rank_env *env)
{
	struct listener listener;
	int64_t began_ms, used_ms;
	int fd = -1, err = find_listeners(env, &listener);

	if (!err && env->rank == 0 && !leave_no_descriptor())
		err = world_report(env, "there are descriptors left");
	if (err)
		return err;
	TRY(rondo_barrier(env->comm, NULL));
	if (env->rank == 1)
		fd = connect_to(&listener);
	TRY(rondo_barrier(env->comm, NULL));
	if (env->rank == 1) {
		err = stay_away(env);
		close(fd);
		return err;
	}
	began_ms = ms_of(CLOCK_MONOTONIC);
	used_ms = ms_of(CLOCK_PROCESS_CPUTIME_ID);
	err = call_in_vain(env);
	began_ms = ms_of(CLOCK_MONOTONIC) - began_ms;
	used_ms = ms_of(CLOCK_PROCESS_CPUTIME_ID) - used_ms;
	/* It slept for most of the time. */
	if (!err && used_ms > began_ms / 2)
		err = world_report(env, "%lld ms of a core in %lld ms", (long long)used_ms,
			(long long)began_ms);
	return err;
}

Test(strangers, without_a_descriptor_for_them_cost_no_core_and_no_time, .timeout = 90)
{
	run("tcp", wait_without_descriptors);
	run("shm", wait_without_descriptors);
}
