/* ctest label: threads */
/* The control connection over real sockets: ranks as threads, and as processes where they are to
 * die. */
#include <arpa/inet.h>
#include <criterion/criterion.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "plan/collective.h"
#include "bootstrap/socket.h"
#include "base/error.h"
#include "bootstrap/control.h"
#include "topo/place.h"

#define RANKS_MAX 8

struct rank {
	int rank, size;
	int turn; /* to leave */
	struct rd_settings settings;
	struct rd_member self;
	struct rd_activity activity;
	_Atomic int failed;
	int wake_fd;
	struct rd_control *control;
	int error; /* of the first call that failed */
	char reason[RD_REASON_SIZE];
	uint64_t comm_id;
	uint64_t digest;
	pthread_t thread;
	int (*script)(struct rank *rank);
};

/* ---- A world of ranks ---------------------------------------------------------------------- */

static struct rank ranks[RANKS_MAX];
static pthread_barrier_t together;

static int listen_anywhere(int *port)
{
	struct sockaddr_in address = { .sin_family = AF_INET };
	socklen_t size = sizeof(address);
	int fd = socket(AF_INET, SOCK_STREAM, 0);

	address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
	if (bind(fd, (struct sockaddr *)&address, size) || listen(fd, 1024) ||
		getsockname(fd, (struct sockaddr *)&address, &size))
		return -1;
	*port = ntohs(address.sin_port);
	return fd;
}

static void prepare_rank(struct rank *rank, int number, int size, int port)
{
	memset(rank, 0, sizeof(*rank));
	rank->rank = number;
	rank->size = size;
	rank->settings.rank = number;
	rank->settings.size = size;
	strcpy(rank->settings.address, "127.0.0.1");
	rank->settings.port = port;
	rank->settings.rendezvous_fd = -1;
	rank->settings.channels = 1;
	rank->settings.piece_size = 4096;
	rank->settings.timeout_ms = 10000;
	rank->settings.heartbeat_timeout_ms = 10000;
	rank->settings.init_timeout_ms = 10000;
	rd_place_here(&rank->self.place, &rank->settings);
	strcpy(rank->self.cards[0].transport, "test");
	rank->self.cards[0].size = 1;
	rank->self.cards[0].bytes[0] = (unsigned char)(100 + number);
	rank->activity.collective = -1;
	rank->activity.waiting_for = -1;
}

/* Rank 0 gets a socket that listens already, as from a launcher. Returns the port. */
static int prepare(int size, int (*script)(struct rank *))
{
	int port = 0, fd = listen_anywhere(&port);

	cr_assert_geq(fd, 0);
	for (int i = 0; i < size; i++) {
		prepare_rank(&ranks[i], i, size, port);
		ranks[i].script = script;
	}
	ranks[0].settings.rendezvous_fd = fd;
	return port;
}

static int keep_error(struct rank *rank, int error)
{
	if (error && !rank->error) {
		rank->error = error;
		snprintf(rank->reason, sizeof(rank->reason), "%s", rondo_last_error());
	}
	return error;
}

static int join(struct rank *rank)
{
	struct rd_control_config config = { &rank->settings, &rank->self, &rank->activity,
		&rank->failed, -1, NULL };
	int error;

	rank->wake_fd = eventfd(0, EFD_CLOEXEC);
	config.wake_fd = rank->wake_fd;
	error = rd_control_create(&rank->control, &config);
	if (!error)
		rank->comm_id = rd_control_comm_id(rank->control);
	return keep_error(rank, error);
}

/* The links of rank r, if it had any, would carry messages of 1000 - r bytes; those of rank 1 would
   map no memory. */
static int ready(struct rank *rank)
{
	struct rd_link_limits limits = { (uint64_t)(1000 - rank->rank), rank->rank != 1 };
	int error = rd_control_ready(rank->control, 0, &limits);

	if (!error && limits.piece_size != (uint64_t)(1001 - rank->size))
		error = rd_fail(RONDO_INVALID, "pieces of %llu bytes",
			(unsigned long long)limits.piece_size);
	if (!error && limits.maps != (rank->size == 1))
		error = rd_fail(RONDO_INVALID, "links that map memory: %d", limits.maps);
	return error;
}

static int join_and_open(struct rank *rank)
{
	int error = join(rank);

	return error ? error : keep_error(rank, ready(rank));
}

static int leave(struct rank *rank)
{
	int error = keep_error(rank, rd_control_leave(rank->control, rank->digest));

	rank->control = NULL;
	return error;
}

static void *run_rank(void *argument)
{
	struct rank *rank = argument;

	rank->script(rank);
	rd_control_destroy(rank->control);
	rank->control = NULL;
	close(rank->wake_fd);
	return NULL;
}

static void start_ranks(int from, int to)
{
	for (int i = from; i < to; i++)
		cr_assert_eq(pthread_create(&ranks[i].thread, NULL, run_rank, &ranks[i]), 0);
}

static void join_ranks(int from, int to)
{
	for (int i = from; i < to; i++)
		pthread_join(ranks[i].thread, NULL);
}

static void run_all(int size)
{
	pthread_barrier_init(&together, NULL, (unsigned)size);
	start_ranks(0, size);
	join_ranks(0, size);
	pthread_barrier_destroy(&together);
}

static void expect_everywhere(int from, int to, int error, const char *part)
{
	for (int i = from; i < to; i++) {
		cr_expect_eq(ranks[i].error, error, "rank %d: %s: %s", i,
			rondo_error_name(ranks[i].error), ranks[i].reason);
		cr_expect(strstr(ranks[i].reason, part), "rank %d: \"%s\" lacks \"%s\"", i,
			ranks[i].reason, part);
		cr_expect_str_eq(ranks[i].reason, ranks[from].reason);
	}
}

static int count_files(void)
{
	DIR *files = opendir("/proc/self/fd");
	int count = 0;

	while (readdir(files))
		count++;
	closedir(files);
	return count;
}

static int count_threads(void)
{
	DIR *threads = opendir("/proc/self/task");
	int count = 0;

	while (readdir(threads))
		count++;
	closedir(threads);
	return count;
}

static int no_call(struct rank *rank)
{
	return join_and_open(rank) ? rank->error : leave(rank);
}

/* ---- Meeting ------------------------------------------------------------------------------- */

static int check_members(struct rank *rank)
{
	const struct rd_member *members;

	if (join(rank))
		return rank->error;
	members = rd_control_members(rank->control);
	for (int i = 0; i < rank->size; i++)
		if (members[i].cards[0].bytes[0] != 100 + i || members[i].place.pid != getpid())
			rank->error = 1;
	if (keep_error(rank, ready(rank)))
		return rank->error;
	return leave(rank);
}

Test(control, ranks_meet_know_each_other_and_part, .timeout = 30)
{
	for (int size = 1; size <= RANKS_MAX; size++) {
		int files = count_files();

		prepare(size, check_members);
		run_all(size);
		expect_everywhere(0, size, 0, "");
		for (int i = 0; i < size; i++)
			cr_expect_eq(ranks[i].comm_id, ranks[0].comm_id);
		cr_expect_neq(ranks[0].comm_id, 0);
		cr_expect_eq(count_files(), files);
	}
}

Test(control, a_rank_alone_needs_no_address, .timeout = 10)
{
	prepare_rank(&ranks[0], 0, 1, 1);
	strcpy(ranks[0].settings.address, "no such name");
	ranks[0].script = no_call;
	run_all(1);
	expect_everywhere(0, 1, 0, "");
}

static int free_port(void)
{
	int port = 0, fd = listen_anywhere(&port);

	close(fd);
	return port;
}

Test(control, rank_0_binds_its_address_and_may_come_last, .timeout = 30)
{
	int port = free_port();

	for (int i = 0; i < 3; i++) {
		prepare_rank(&ranks[i], i, 3, port);
		ranks[i].script = no_call;
	}
	start_ranks(1, 3);
	poll(NULL, 0, 50);
	start_ranks(0, 1);
	join_ranks(0, 3);
	expect_everywhere(0, 3, 0, "");
}

/* Each rank goes on to the next comm at once: it must not fall into the one that still ends. */
static int many_comms(struct rank *rank)
{
	for (int i = 0; i < 20; i++)
		if (no_call(rank))
			return rank->error;
	return 0;
}

Test(control, comm_after_comm_at_one_port_are_kept_apart, .timeout = 60)
{
	int port = free_port();

	for (int i = 0; i < 4; i++) {
		prepare_rank(&ranks[i], i, 4, port);
		ranks[i].script = many_comms;
	}
	start_ranks(0, 4);
	join_ranks(0, 4);
	for (int i = 0; i < 4; i++)
		cr_expect_eq(ranks[i].error, 0, "rank %d: %s", i, ranks[i].reason);
}

Test(control, ipv6_and_names_do_as_well, .timeout = 30)
{
	static const char *const addresses[] = { "localhost", "::1" };

	for (int a = 0; a < 2; a++) {
		int port = free_port();
		for (int i = 0; i < 2; i++) {
			prepare_rank(&ranks[i], i, 2, port);
			strcpy(ranks[i].settings.address, addresses[a]);
			ranks[i].script = no_call;
			ranks[i].settings.init_timeout_ms = 3000;
		}
		run_all(2);
		if (a == 1 && strstr(ranks[0].reason, "is no address of this host"))
			cr_skip_test("this host has no IPv6 loopback");
		expect_everywhere(0, 2, 0, "");
	}
}

/* ---- Meeting that fails -------------------------------------------------------------------- */

Test(control, a_rank_that_never_comes_is_named_on_every_rank, .timeout = 30)
{
	int files = count_files(), threads = count_threads();

	prepare(5, no_call);
	for (int i = 0; i < 5; i++)
		ranks[i].settings.init_timeout_ms = 1000;
	start_ranks(0, 2);
	start_ranks(4, 5);
	join_ranks(0, 2);
	join_ranks(4, 5);
	ranks[2] = ranks[4];
	expect_everywhere(0, 3, RONDO_TIMEOUT, "ranks 2 and 3 of 5 have not come to 127.0.0.1:");
	expect_everywhere(0, 3, RONDO_TIMEOUT, "within 1 s");
	cr_expect_eq(count_files(), files);
	cr_expect_eq(count_threads(), threads);
}

Test(control, where_nobody_listens_the_address_is_named, .timeout = 30)
{
	int files = count_files();

	prepare_rank(&ranks[0], 3, 4, free_port());
	ranks[0].settings.init_timeout_ms = 200;
	ranks[0].script = no_call;
	run_all(1);
	expect_everywhere(0, 1, RONDO_UNREACHABLE, "rank 3: no one listens at 127.0.0.1:");
	expect_everywhere(0, 1, RONDO_UNREACHABLE, "(Connection refused, tried for 200 ms)");
	cr_expect_eq(count_files(), files);
}

/* So it may happen where nobody listens, and the port is among those that the system hands out. */
Test(control, a_socket_that_met_itself_met_nobody, .timeout = 10)
{
	struct sockaddr_in address = { .sin_family = AF_INET };
	socklen_t size = sizeof(address);
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

	address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
	cr_assert_eq(bind(fd, (struct sockaddr *)&address, size), 0);
	cr_assert_eq(getsockname(fd, (struct sockaddr *)&address, &size), 0);
	cr_assert_eq(connect(fd, (struct sockaddr *)&address, size), 0);
	cr_expect_eq(rd_connect_finish(fd), ECONNREFUSED);
	close(fd);
}

Test(control, a_listener_that_never_answers_is_given_up, .timeout = 30)
{
	int port, fd = listen_anywhere(&port);

	prepare_rank(&ranks[0], 1, 2, port);
	ranks[0].settings.init_timeout_ms = 200;
	ranks[0].script = no_call;
	run_all(1);
	expect_everywhere(0, 1, RONDO_TIMEOUT, "does not answer (tried for 200 ms)");
	close(fd);
}

Test(control, a_name_without_an_address_is_named, .timeout = 60)
{
	int files = count_files();

	for (int number = 0; number < 2; number++) {
		prepare_rank(&ranks[0], number, 2, 29500);
		strcpy(ranks[0].settings.address, "no-such-host.invalid");
		ranks[0].settings.init_timeout_ms = 200;
		ranks[0].script = no_call;
		run_all(1);
		expect_everywhere(0, 1, RONDO_UNREACHABLE,
			"MASTER_ADDR \"no-such-host.invalid\" has no address here");
	}
	cr_expect_eq(count_files(), files);
}

Test(control, an_address_of_another_host_is_refused_in_rank_0, .timeout = 30)
{
	prepare_rank(&ranks[0], 0, 2, 29500);
	strcpy(ranks[0].settings.address, "192.0.2.1");
	ranks[0].script = no_call;
	run_all(1);
	expect_everywhere(0, 1, RONDO_SETTING, "192.0.2.1:29500 is no address of this host");
}

Test(control, a_port_in_use_is_said, .timeout = 30)
{
	int port, fd = listen_anywhere(&port), files = count_files();

	prepare_rank(&ranks[0], 0, 2, port);
	ranks[0].script = no_call;
	run_all(1);
	expect_everywhere(0, 1, RONDO_SYSTEM, "the port is in use");
	cr_expect_eq(count_files(), files);
	close(fd);
}

Test(control, a_descriptor_that_does_not_listen_is_refused, .timeout = 30)
{
	int fd = eventfd(0, 0);

	prepare_rank(&ranks[0], 0, 2, 29500);
	ranks[0].settings.rendezvous_fd = fd;
	ranks[0].script = no_call;
	run_all(1);
	expect_everywhere(0, 1, RONDO_SETTING, "is not a listening socket");
	cr_expect_geq(fcntl(fd, F_GETFD), 0, "a descriptor of someone else was closed");
	close(fd);
}

Test(control, another_world_size_is_told_to_all, .timeout = 30)
{
	prepare(3, no_call);
	ranks[2].settings.size = 4;
	run_all(3);
	expect_everywhere(0, 3, RONDO_SETTING, "was started with WORLD_SIZE 4, rank 0");
}

Test(control, two_of_one_rank_are_told_to_all, .timeout = 30)
{
	prepare(3, no_call);
	ranks[2].settings.rank = 1;
	run_all(3);
	expect_everywhere(0, 3, RONDO_SETTING, "two processes say they are rank 1: rank 1 (host");
}

Test(control, another_piece_size_is_told_to_all, .timeout = 30)
{
	prepare(3, no_call);
	ranks[1].settings.piece_size = 8192;
	run_all(3);
	expect_everywhere(0, 3, RONDO_SETTING, "has RONDO_PIECE 8192, rank 0");
}

/* ---- Strangers ----------------------------------------------------------------------------- */

static int connect_to(int port)
{
	struct sockaddr_in address = { .sin_family = AF_INET, .sin_port = htons((uint16_t)port) };
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

	address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
	if (!connect(fd, (struct sockaddr *)&address, sizeof(address)))
		return fd;
	close(fd);
	return -1;
}

Test(control, strangers_do_not_disturb, .timeout = 30)
{
	static const char request[] = "GET / HTTP/1.1\r\nHost: a\r\n\r\n";
	int port = prepare(3, no_call), mute[40], scanner, web;
	char byte;

	start_ranks(0, 2);
	for (int i = 0; i < 40; i++)
		mute[i] = connect_to(port);
	scanner = connect_to(port);
	close(scanner);
	web = connect_to(port);
	cr_expect_eq(write(web, request, sizeof(request)), (ssize_t)sizeof(request));
	cr_expect_leq(read(web, &byte, 1), 0, "a stranger was answered");
	start_ranks(2, 3);
	join_ranks(0, 3);
	expect_everywhere(0, 3, 0, "");
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
		crowd[i] = connect_to(port);
	cr_assert_geq(crowd[CROWD - 1], 0);
}

static void close_crowd(int crowd[CROWD])
{
	for (int i = 0; i < CROWD; i++)
		close(crowd[i]);
}

Test(control, a_silent_crowd_before_the_ranks_keeps_nobody_out, .timeout = 60)
{
	int port = prepare(3, no_call), crowd[CROWD];

	clock_t spent = clock();

	allow_files();
	connect_crowd(port, crowd);
	run_all(3);
	expect_everywhere(0, 3, 0, "");
	cr_expect_lt(clock() - spent, CLOCKS_PER_SEC, "rank 0 spun instead of waiting");
	close_crowd(crowd);
}

static int crowd_port;
static atomic_bool crowd_ends;

/* Goes on to connect, in the place of those that rank 0 closes, until it is stopped. */
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
		fds[oldest] = connect_to(crowd_port);
		oldest = (oldest + 1) % CROWD;
	}
	close_crowd(fds);
	return NULL;
}

Test(control, a_silent_crowd_that_goes_on_keeps_nobody_out, .timeout = 60)
{
	pthread_barrier_t begun;
	pthread_t crowd;

	allow_files();
	crowd_port = prepare(3, no_call);
	pthread_barrier_init(&begun, NULL, 2);
	cr_assert_eq(pthread_create(&crowd, NULL, crowd_in, &begun), 0);
	start_ranks(0, 1);
	pthread_barrier_wait(&begun);
	start_ranks(1, 3);
	join_ranks(0, 3);
	atomic_store(&crowd_ends, true);
	pthread_join(crowd, NULL);
	expect_everywhere(0, 3, 0, "");
	pthread_barrier_destroy(&begun);
}

/* Rank 0 has descriptors for itself and a few connections. */
static int join_with_few_files(struct rank *rank)
{
	struct rlimit limit = { 0 };

	getrlimit(RLIMIT_NOFILE, &limit);
	limit.rlim_cur = (rlim_t)count_files() + 16;
	return setrlimit(RLIMIT_NOFILE, &limit) ? -1 : no_call(rank);
}

Test(control, a_silent_crowd_takes_no_descriptor_that_a_rank_needs, .timeout = 60)
{
	int port = prepare(2, no_call), crowd[CROWD], status;
	pid_t pid = fork();

	if (pid == 0)
		_exit(join_with_few_files(&ranks[0]) ? 1 : 0);
	allow_files();
	connect_crowd(port, crowd);
	start_ranks(1, 2);
	join_ranks(1, 2);
	expect_everywhere(1, 2, 0, "");
	waitpid(pid, &status, 0);
	cr_expect_eq(status, 0);
	close_crowd(crowd);
	close(ranks[0].settings.rendezvous_fd);
}

/* How often any thread of this program has waited for events: see CMakeLists.txt. */
static atomic_int epoll_waits;

int __real_epoll_wait(int fd, struct epoll_event *events, int most, int timeout_ms);
int __wrap_epoll_wait(int fd, struct epoll_event *events, int most, int timeout_ms);

int __wrap_epoll_wait(int fd, struct epoll_event *events, int most, int timeout_ms)
{
	atomic_fetch_add(&epoll_waits, 1);
	return __real_epoll_wait(fd, events, most, timeout_ms);
}

static int stay_for_a_while(struct rank *rank)
{
	if (join_and_open(rank))
		return rank->error;
	pthread_barrier_wait(&together);
	pthread_barrier_wait(&together);
	return leave(rank);
}

/* As under a launcher, which keeps the listening socket open. */
Test(control, a_connection_after_the_meeting_wakes_nobody, .timeout = 60)
{
	int port = prepare(2, stay_for_a_while), launchers, late, before;

	launchers = dup(ranks[0].settings.rendezvous_fd);
	pthread_barrier_init(&together, NULL, 3);
	start_ranks(0, 2);
	pthread_barrier_wait(&together);
	late = connect_to(port);
	cr_expect_geq(late, 0);
	before = atomic_load(&epoll_waits);
	/* The time in which to see whether a thread spins. */
	poll(NULL, 0, 500);
	cr_expect_lt(atomic_load(&epoll_waits) - before, 50);
	pthread_barrier_wait(&together);
	join_ranks(0, 2);
	expect_everywhere(0, 2, 0, "");
	close(late);
	close(launchers);
}

/* ---- Failures later ------------------------------------------------------------------------ */

/* What the comm does while it waits: sleeps until the control connection wakes it. */
static void await_verdict(struct rank *rank)
{
	uint64_t rings;

	if (read(rank->wake_fd, &rings, sizeof(rings)) == sizeof(rings) &&
		rd_control_verdict(rank->control) != atomic_load(&rank->failed))
		rank->error = 1;
	keep_error(rank, rd_control_verdict(rank->control));
}

static int abort_in_1(struct rank *rank)
{
	if (join_and_open(rank))
		return rank->error;
	if (rank->rank == 1)
		return keep_error(rank, rd_control_report(rank->control, RONDO_ABORTED, -1,
						"rank 1 gave up: no more coffee"));
	await_verdict(rank);
	return 0;
}

Test(control, an_abort_reaches_everyone, .timeout = 30)
{
	prepare(4, abort_in_1);
	run_all(4);
	expect_everywhere(0, 4, RONDO_ABORTED, "rank 1 gave up: no more coffee");
}

static int vanish_in_2(struct rank *rank)
{
	if (join_and_open(rank))
		return rank->error;
	if (rank->rank == 2)
		return 0; /* run_rank() destroys without a goodbye */
	await_verdict(rank);
	return 0;
}

Test(control, a_rank_that_goes_without_a_goodbye_has_died, .timeout = 30)
{
	prepare(4, vanish_in_2);
	run_all(4);
	cr_expect_eq(ranks[2].error, 0);
	ranks[2] = ranks[3];
	expect_everywhere(0, 3, RONDO_DIED, "rank 2 (host ");
}

static int blame_2(struct rank *rank)
{
	if (join_and_open(rank))
		return rank->error;
	if (rank->rank == 2) {
		pthread_barrier_wait(&together);
		return 0;
	}
	pthread_barrier_wait(&together);
	return keep_error(rank, rd_control_report(rank->control, RONDO_BROKEN,
					rank->rank == 0 ? 1 : 2, "closed its connection"));
}

Test(control, a_death_goes_before_the_broken_links_it_causes, .timeout = 30)
{
	prepare(4, blame_2);
	run_all(4);
	ranks[2] = ranks[3];
	expect_everywhere(0, 3, RONDO_DIED, "rank 2 (host ");
}

static int break_a_link(struct rank *rank)
{
	if (join_and_open(rank))
		return rank->error;
	if (rank->rank == 1)
		return keep_error(rank, rd_control_report(rank->control, RONDO_BROKEN, 2,
						"rank 2 reset its connection"));
	await_verdict(rank);
	return 0;
}

Test(control, where_nobody_died_the_broken_link_is_the_reason, .timeout = 30)
{
	prepare(3, break_a_link);
	run_all(3);
	expect_everywhere(0, 3, RONDO_BROKEN, "rank 2 reset its connection (seen by rank 1)");
}

/* Rank 1 does not join call #2, and rank 0 tires of it. */
static int idle_in_1(struct rank *rank)
{
	if (join_and_open(rank))
		return rank->error;
	atomic_store(&rank->activity.collective, RD_ALL_REDUCE);
	atomic_store(&rank->activity.calls, rank->rank == 1 ? 1 : 2);
	atomic_store(&rank->activity.done, 1);
	pthread_barrier_wait(&together);
	if (rank->rank == 0)
		return keep_error(rank,
			rd_control_report(rank->control, RONDO_TIMEOUT, 2, "rank 2 was silent"));
	await_verdict(rank);
	return 0;
}

Test(control, of_a_silence_the_rank_that_did_not_join_is_the_reason, .timeout = 30)
{
	prepare(3, idle_in_1);
	run_all(3);
	expect_everywhere(0, 3, RONDO_TIMEOUT, "has not joined all_reduce #2 (it has made 1 call)");
}

/* ---- Leaving ------------------------------------------------------------------------------- */

static pthread_mutex_t turn_lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t turn_news = PTHREAD_COND_INITIALIZER;
static int turn;

static void await_turn(const struct rank *rank)
{
	pthread_mutex_lock(&turn_lock);
	while (turn < rank->turn)
		pthread_cond_wait(&turn_news, &turn_lock);
	pthread_mutex_unlock(&turn_lock);
}

static void next_turn(void)
{
	pthread_mutex_lock(&turn_lock);
	turn++;
	pthread_cond_broadcast(&turn_news);
	pthread_mutex_unlock(&turn_lock);
}

static int leave_in_turn(struct rank *rank)
{
	if (join_and_open(rank))
		return rank->error;
	await_turn(rank);
	if (rank->rank == 0) {
		/* It stays until all have left: that must not hold up the turns. */
		next_turn();
		return leave(rank);
	}
	leave(rank);
	next_turn();
	return rank->error;
}

Test(control, ranks_leave_in_any_order, .timeout = 30)
{
	static const int orders[][3] = { { 0, 1, 2 }, { 0, 2, 1 }, { 1, 0, 2 }, { 1, 2, 0 },
		{ 2, 0, 1 }, { 2, 1, 0 } };

	for (size_t o = 0; o < sizeof(orders) / sizeof(orders[0]); o++) {
		prepare(3, leave_in_turn);
		for (int i = 0; i < 3; i++)
			ranks[i].turn = orders[o][i];
		turn = 0;
		run_all(3);
		expect_everywhere(0, 3, 0, "");
	}
}

static int leave_early_in_1(struct rank *rank)
{
	if (join_and_open(rank))
		return rank->error;
	atomic_store(&rank->activity.collective, RD_BROADCAST);
	atomic_store(&rank->activity.calls, 16);
	atomic_store(&rank->activity.done, 16);
	if (rank->rank == 1)
		return leave(rank);
	if (rank->rank == 0)
		atomic_store(&rank->activity.calls, 17);
	await_verdict(rank);
	return 0;
}

Test(control, a_call_that_a_leaver_never_made_ends_at_once, .timeout = 30)
{
	prepare(3, leave_early_in_1);
	run_all(3);
	cr_expect_eq(ranks[1].error, 0);
	ranks[1] = ranks[2];
	expect_everywhere(0, 2, RONDO_LEFT, "rank 1 (host ");
	expect_everywhere(0, 2, RONDO_LEFT, "left after call #16; rank 0 is in broadcast #17");
}

Test(control, different_calls_are_found_at_the_goodbye, .timeout = 30)
{
	prepare(2, no_call);
	ranks[1].digest = 1;
	run_all(2);
	cr_expect_eq(ranks[0].error, RONDO_MISMATCH, "%s", ranks[0].reason);
	cr_expect(strstr(ranks[0].reason, "did not make the same calls"), "%s", ranks[0].reason);
}

static int stay_in_1(struct rank *rank)
{
	if (join_and_open(rank))
		return rank->error;
	if (rank->rank == 0)
		return leave(rank);
	await_verdict(rank);
	return 0;
}

Test(control, rank_0_does_not_wait_for_ever_to_be_left, .timeout = 30)
{
	prepare(2, stay_in_1);
	ranks[0].settings.timeout_ms = 1500;
	run_all(2);
	expect_everywhere(0, 2, RONDO_TIMEOUT, "rank 1 of 2 has not left 1500 ms after rank 0");
}

/* ---- Processes that die -------------------------------------------------------------------- */

/* What a forked rank leaves for its parent to see. */
struct outcome {
	int error;
	char reason[RD_REASON_SIZE];
};

static struct outcome *outcomes; /* shared memory */

enum death { BEFORE_JOINING, WHILE_JOINING, BEFORE_READY, WHILE_OPENING, RUNNING, STOPPED };

struct scenario {
	int size, victim;
	enum death death;
	int absent; /* never comes, so that the others wait; -1: none */
};

static bool dies(const struct rank *rank, const struct scenario *scenario, enum death death)
{
	return rank->rank == scenario->victim && scenario->death == death;
}

/* Joins, opens and waits for the verdict, as far as outcome lets it. */
static void live(struct rank *rank, const struct scenario *scenario)
{
	/* One that is not ready keeps the victim waiting. */
	bool lags = scenario->death == WHILE_OPENING &&
		    rank->rank == (scenario->victim + 1) % scenario->size;

	rank->self.place.pid = getpid();
	if (dies(rank, scenario, BEFORE_JOINING))
		raise(SIGKILL);
	if (dies(rank, scenario, WHILE_JOINING))
		ualarm(500000, 0);
	if (join(rank))
		return;
	if (dies(rank, scenario, BEFORE_READY))
		raise(SIGKILL);
	if (dies(rank, scenario, WHILE_OPENING))
		ualarm(500000, 0);
	if (!lags && keep_error(rank, ready(rank)))
		return;
	if (dies(rank, scenario, RUNNING))
		raise(SIGKILL);
	if (dies(rank, scenario, STOPPED))
		raise(SIGSTOP);
	await_verdict(rank);
}

static void fork_rank(struct rank *rank, pid_t *pid, const struct scenario *scenario)
{
	*pid = fork();
	if (*pid)
		return;
	if (rank->rank != 0)
		close(ranks[0].settings.rendezvous_fd);
	live(rank, scenario);
	outcomes[rank->rank].error = rank->error;
	memcpy(outcomes[rank->rank].reason, rank->reason, RD_REASON_SIZE);
	rd_control_destroy(rank->control);
	_exit(0);
}

static bool survives(const struct scenario *scenario, int rank)
{
	return rank != scenario->victim && rank != scenario->absent;
}

/* Leaves what the survivors say in ranks[0] and on; returns how many there are. */
static int run_with_death(struct scenario scenario)
{
	pid_t pids[RANKS_MAX] = { 0 };
	int survivors = 0;

	outcomes = mmap(NULL, sizeof(*outcomes) * RANKS_MAX, PROT_READ | PROT_WRITE,
		MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	prepare(scenario.size, NULL);
	for (int i = 0; i < scenario.size; i++) {
		if (scenario.death == STOPPED)
			ranks[i].settings.heartbeat_timeout_ms = 1000;
		if (scenario.death == BEFORE_JOINING)
			ranks[i].settings.init_timeout_ms = 1000;
		if (i != scenario.absent)
			fork_rank(&ranks[i], &pids[i], &scenario);
	}
	close(ranks[0].settings.rendezvous_fd);
	for (int i = 0; i < scenario.size; i++)
		if (survives(&scenario, i))
			waitpid(pids[i], NULL, 0);
	kill(pids[scenario.victim], SIGKILL);
	waitpid(pids[scenario.victim], NULL, 0);
	for (int i = 0; i < scenario.size; i++) {
		if (!survives(&scenario, i))
			continue;
		ranks[survivors].error = outcomes[i].error;
		memcpy(ranks[survivors++].reason, outcomes[i].reason, RD_REASON_SIZE);
	}
	munmap(outcomes, sizeof(*outcomes) * RANKS_MAX);
	return survivors;
}

static void expect_scenario(struct scenario scenario, int error, const char *format)
{
	int survivors = run_with_death(scenario);
	char part[64];

	snprintf(part, sizeof(part), format, scenario.victim);
	for (int i = 0; i < survivors; i++) {
		cr_expect_eq(ranks[i].error, error, "%s: %s", rondo_error_name(ranks[i].error),
			ranks[i].reason);
		cr_expect(strstr(ranks[i].reason, part), "\"%s\" lacks \"%s\"", ranks[i].reason,
			part);
	}
}

Test(control, a_rank_killed_while_all_run_is_named_at_once, .timeout = 60)
{
	for (int victim = 0; victim < 4; victim++)
		expect_scenario(
			(struct scenario){ 4, victim, RUNNING, -1 }, RONDO_DIED, "rank %d (host ");
}

Test(control, a_rank_killed_between_meeting_and_opening_is_named, .timeout = 60)
{
	for (int victim = 0; victim < 3; victim++) {
		expect_scenario((struct scenario){ 3, victim, BEFORE_READY, -1 }, RONDO_DIED,
			"rank %d (host ");
		expect_scenario((struct scenario){ 3, victim, WHILE_OPENING, -1 }, RONDO_DIED,
			"rank %d (host ");
	}
}

Test(control, a_rank_killed_while_it_waits_for_others_is_named, .timeout = 60)
{
	expect_scenario((struct scenario){ 4, 2, WHILE_JOINING, 3 }, RONDO_DIED, "rank %d (host ");
	expect_scenario((struct scenario){ 4, 0, WHILE_JOINING, 1 }, RONDO_DIED, "rank %d (at ");
}

Test(control, a_rank_killed_before_it_came_is_missed, .timeout = 60)
{
	expect_scenario((struct scenario){ 3, 2, BEFORE_JOINING, -1 }, RONDO_TIMEOUT,
		"rank %d of 3 has not come to");
	expect_scenario((struct scenario){ 3, 0, BEFORE_JOINING, -1 }, RONDO_UNREACHABLE,
		"no one listens at");
}

Test(control, a_stopped_rank_is_noticed_by_its_silence, .timeout = 60)
{
	for (int victim = 0; victim < 3; victim++)
		expect_scenario((struct scenario){ 3, victim, STOPPED, -1 }, RONDO_TIMEOUT,
			"rank %d (host ");
}
