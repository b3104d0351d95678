/* ctest label: threads */
/* Connections to rank 0 that are no ranks: they keep no rank out, and wake no thread. */
#include <criterion/criterion.h>
#include <errno.h>
#include <poll.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include "bootstrap/rendezvous.h"
#include "control_ranks.h"
#include "filter.h"
#include "transports/contract/leaks.h"

Test(control, foreign_connections_do_not_disturb, .timeout = 30)
{
	static const char request[] = "GET / HTTP/1.1\r\nHost: a\r\n\r\n";
	int port = control_prepare(3, control_no_call), mute[40], scanner, web;
	char byte;

	control_start(0, 2);
	for (int i = 0; i < 40; i++)
		mute[i] = control_connect(port);
	scanner = control_connect(port);
	close(scanner);
	web = control_connect(port);
	cr_expect_eq(write(web, request, sizeof(request)), (ssize_t)sizeof(request));
	cr_expect_leq(read(web, &byte, 1), 0, "a foreign connection was answered");
	control_start(2, 3);
	control_wait(0, 3);
	control_expect(0, 3, 0, "");
	close(web);
	for (int i = 0; i < 40; i++)
		close(mute[i]);
}

#define CROWD 400

/* Descriptors for a crowd, at both ends. */
static void allow_files(void)
{
	struct rlimit limit;

	cr_assert_eq(getrlimit(RLIMIT_NOFILE, &limit), 0);
	if (limit.rlim_cur >= 4 * CROWD)
		return;
	limit.rlim_cur = limit.rlim_max < 4 * CROWD ? limit.rlim_max : 4 * CROWD;
	cr_assert_eq(setrlimit(RLIMIT_NOFILE, &limit), 0);
}

static void connect_crowd(int port, int crowd[CROWD])
{
	for (int i = 0; i < CROWD; i++)
		crowd[i] = control_connect(port);
	cr_assert_geq(crowd[CROWD - 1], 0);
}

static void close_crowd(int crowd[CROWD])
{
	for (int i = 0; i < CROWD; i++)
		close(crowd[i]);
}

static _Atomic int looks; /* calls of epoll_wait() */

static int count_look(const struct watched_call *call)
{
	(void)call;
	looks++;
	return 0;
}

static void count_looks(void)
{
	if (!watch_calls(FILTER_EPOLL_WAIT, count_look))
		cr_skip_test("system calls cannot be watched here");
}

Test(control, a_silent_crowd_before_the_ranks_keeps_nobody_out, .timeout = 60)
{
	int port = control_prepare(3, control_no_call), crowd[CROWD];

	count_looks();
	allow_files();
	connect_crowd(port, crowd);
	control_run(3);
	control_expect(0, 3, 0, "");
	cr_expect_lt(looks, 8 * CROWD, "rank 0 spun instead of waiting");
	close_crowd(crowd);
}

static int crowd_port;
static atomic_bool crowd_ends;

/* Connects again for each connection that rank 0 closes, until crowd_ends. */
static void *crowd_in(void *argument)
{
	int fds[CROWD], oldest = 0;

	connect_crowd(crowd_port, fds);
	pthread_barrier_wait(argument);
	while (!atomic_load(&crowd_ends)) {
		struct pollfd closed = { .fd = fds[oldest], .events = POLLIN };

		if (poll(&closed, 1, 10) < 1)
			continue;
		close(fds[oldest]);
		fds[oldest] = control_connect(crowd_port);
		oldest = (oldest + 1) % CROWD;
	}
	close_crowd(fds);
	return NULL;
}

Test(control, a_silent_crowd_that_continues_keeps_nobody_out, .timeout = 60)
{
	pthread_barrier_t begun;
	pthread_t crowd;

	allow_files();
	crowd_port = control_prepare(3, control_no_call);
	pthread_barrier_init(&begun, NULL, 2);
	cr_assert_eq(pthread_create(&crowd, NULL, crowd_in, &begun), 0);
	control_start(0, 1);
	pthread_barrier_wait(&begun);
	control_start(1, 3);
	control_wait(0, 3);
	atomic_store(&crowd_ends, true);
	pthread_join(crowd, NULL);
	control_expect(0, 3, 0, "");
	pthread_barrier_destroy(&begun);
}

/* Rank 0 has descriptors for itself and a few connections. */
static int join_with_few_files(struct control_rank *rank)
{
	struct rlimit limit = { 0 };

	getrlimit(RLIMIT_NOFILE, &limit);
	limit.rlim_cur = (rlim_t)contract_open_files() + 16;
	return setrlimit(RLIMIT_NOFILE, &limit) ? -1 : control_no_call(rank);
}

Test(control, a_silent_crowd_takes_no_descriptor_that_a_rank_needs, .timeout = 60)
{
	int port = control_prepare(2, control_no_call), crowd[CROWD], status;
	pid_t pid = fork();

	if (pid == 0)
		_exit(join_with_few_files(&ranks[0]) ? 1 : 0);
	allow_files();
	connect_crowd(port, crowd);
	control_start(1, 2);
	control_wait(1, 2);
	control_expect(1, 2, 0, "");
	waitpid(pid, &status, 0);
	cr_expect_eq(status, 0);
	close_crowd(crowd);
	close(ranks[0].settings.rendezvous_fd);
}

static int stay_for_a_while(struct control_rank *rank)
{
	if (control_join_and_open(rank))
		return rank->error;
	pthread_barrier_wait(&together);
	pthread_barrier_wait(&together);
	return control_leave(rank);
}

static int launchers; /* a launcher's copy of the listening socket */

static int keep_listener(struct control_rank *rank)
{
	if (rank->rank == 0)
		launchers = dup(rank->settings.rendezvous_fd);
	return stay_for_a_while(rank);
}

/* Two ranks, which stay until stop_staying(). Returns rank 0's port. */
static int start_staying(int (*script)(struct control_rank *rank))
{
	int port = control_prepare(2, script);

	count_looks();
	pthread_barrier_init(&together, NULL, 3);
	control_start(0, 2);
	pthread_barrier_wait(&together);
	return port;
}

static void stop_staying(void)
{
	pthread_barrier_wait(&together);
	control_wait(0, 2);
	control_expect(0, 2, 0, "");
}

/* All threads of this process sleep: they neither wake often nor spin. */
static void expect_no_wakes(void)
{
	struct rusage before, after;

	looks = 0;
	getrusage(RUSAGE_SELF, &before);
	poll(NULL, 0, 500);
	getrusage(RUSAGE_SELF, &after);
	cr_expect_lt(after.ru_nvcsw - before.ru_nvcsw, 50);
	cr_expect_lt(looks, 50, "a thread spins");
}

/* The launcher keeps the listening socket open. */
Test(control, a_connection_after_the_meeting_wakes_nobody, .timeout = 60)
{
	int port = start_staying(keep_listener), late = control_connect(port);

	cr_expect_geq(late, 0);
	expect_no_wakes();
	stop_staying();
	close(late);
	close(launchers);
}

static int stay_without_accept(struct control_rank *rank)
{
	if (rank->rank == 1 && !forbid(SYS_accept4, EPERM))
		return 0;
	return stay_for_a_while(rank);
}

/* To one of this process's sockets for `rondo-run --status`. */
static int ask_for_status(int number)
{
	struct sockaddr_un at = { .sun_family = AF_UNIX };
	int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
	size_t size = offsetof(struct sockaddr_un, sun_path) + 1;

	size += (size_t)snprintf(at.sun_path + 1, sizeof(at.sun_path) - 1,
		"rondo-status.%d.%d.0000000000000000", (int)getpid(), number);
	cr_assert_eq(connect(fd, (struct sockaddr *)&at, (socklen_t)size), 0);
	return fd;
}

Test(control, a_request_for_the_status_that_may_not_be_accepted_wakes_once, .timeout = 60)
{
	int fds[2];

	start_staying(stay_without_accept);
	for (int i = 0; i < 2; i++)
		fds[i] = ask_for_status(i);
	expect_no_wakes();
	stop_staying();
	for (int i = 0; i < 2; i++)
		close(fds[i]);
}

/* Before a shrink nobody accepts at a rank's place: those that wait there for nothing make room. */
Test(control, foreign_connections_do_not_fill_the_backlog_of_a_shrink, .timeout = 60)
{
	int bound = 2 + RD_PENDING_MAX, count = bound + 300, crowd[2 + RD_PENDING_MAX + 300];

	allow_files();
	start_staying(stay_for_a_while);
	for (int rank = 0; rank < 2; rank++) {
		const struct rd_member *members = rd_control_members(ranks[0].control);

		for (int i = 0; i < count; i++)
			crowd[i] = control_connect((int)members[rank].lineage.port);
		for (int i = 0; i < count; i++) {
			struct pollfd end = { .fd = crowd[i], .events = POLLIN };

			cr_expect_eq(poll(&end, 1, i < count - bound ? 10000 : 0),
				i < count - bound, "connection %d of rank %d", i, rank);
			close(crowd[i]);
		}
	}
	stop_staying();
}
