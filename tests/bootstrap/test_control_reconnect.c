/* A control connection that goes on over other sockets: the test is rank 1 itself, byte by byte.
   127.0.0.2 is another host for rank 0, which listens at all addresses. */
#include <arpa/inet.h>
#include <criterion/criterion.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "control_ranks.h"
#include "bootstrap/control_message.h"

#define WAIT_MS 5000
#define CROWD 300

/* Rank 1's end of a control connection. */
static struct {
	int fd;
	pid_t rank_0;
	int child[2]; /* a pipe, where rank 0 is to have a child; else 0 */
	int leave[2]; /* a pipe: rank 0 leaves once it is closed */
	long spent_ms; /* by rank 0, of a core */
	int line_fd; /* where rank 0 probes */
	uint64_t received; /* bytes, over all sockets */
	uint64_t comm_id;
	uint32_t port; /* where it goes on */
	uint32_t attempt;
	size_t size;
	unsigned char bytes[2 * RD_FRAME_MAX];
} end;

static int listen_at(const char *address, int *port)
{
	struct sockaddr_in at = { .sin_family = AF_INET };
	socklen_t size = sizeof(at);
	int fd = socket(AF_INET, SOCK_STREAM, 0);

	inet_pton(AF_INET, address, &at.sin_addr);
	cr_assert_eq(bind(fd, (struct sockaddr *)&at, sizeof(at)), 0);
	cr_assert_eq(listen(fd, 1024), 0);
	cr_assert_eq(getsockname(fd, (struct sockaddr *)&at, &size), 0);
	*port = ntohs(at.sin_port);
	return fd;
}

static int connect_to(int port)
{
	struct sockaddr_in at = { .sin_family = AF_INET, .sin_port = htons((uint16_t)port) };
	int fd = socket(AF_INET, SOCK_STREAM, 0);

	inet_pton(AF_INET, "127.0.0.2", &at.sin_addr);
	cr_assert_eq(connect(fd, (struct sockaddr *)&at, sizeof(at)), 0, "%m");
	return fd;
}

static void send_message(int fd, struct rd_control_message *message)
{
	unsigned char frame[RD_FRAME_MAX];
	size_t size = rd_control_encode(message, frame);

	cr_assert_eq(send(fd, frame, size, MSG_NOSIGNAL), (ssize_t)size, "%m");
}

/* As recv(), within WAIT_MS. */
static ssize_t receive_within(int fd, void *bytes, size_t size)
{
	struct pollfd ready = { fd, POLLIN, 0 };

	cr_assert_eq(poll(&ready, 1, WAIT_MS), 1, "nothing came");
	return recv(fd, bytes, size, 0);
}

/* From a pipe. */
static ssize_t receive_byte(int fd, char *byte)
{
	struct pollfd ready = { fd, POLLIN, 0 };

	return poll(&ready, 1, WAIT_MS) == 1 ? read(fd, byte, 1) : 0;
}

/* Reads messages up to one of this kind. */
static void await(enum rd_control_kind kind, struct rd_control_message *message)
{
	for (;;) {
		int took = rd_control_decode(end.bytes, end.size, message);
		ssize_t got;

		cr_assert_geq(took, 0);
		end.size -= (size_t)took;
		memmove(end.bytes, end.bytes + took, end.size);
		if (took && message->kind == kind)
			return;
		if (took)
			continue;
		got = receive_within(end.fd, end.bytes + end.size, sizeof(end.bytes) - end.size);
		cr_assert_gt(got, 0, "rank 0 ended the connection: %zd", got);
		end.size += (size_t)got;
		end.received += (uint64_t)got;
	}
}

static void say_hello(void)
{
	struct rd_control_message hello = control_hello(&ranks[1]);
	struct rd_line_place *place = &hello.hello.member.place_of_line;
	int port;

	end.line_fd = listen_at("127.0.0.2", &port);
	strcpy(place->address, "127.0.0.2");
	place->port = (uint32_t)port;
	place->origin = 1;
	send_message(end.fd, &hello);
}

/* It outlives rank 0, by some seconds. */
static void begin_child(void)
{
	char byte = 0;

	if (fork())
		return;
	if (write(end.child[1], &byte, 1) == 1)
		poll(NULL, 0, 3000);
	_exit(0);
}

/* Rank 0, in a process of its own, which ends with the error of its comm. */
static void begin_rank_0(int fd, int port)
{
	char byte;

	cr_assert_eq(pipe(end.leave), 0);
	end.rank_0 = fork();
	if (end.rank_0) {
		close(fd);
		close(end.leave[0]);
		return;
	}
	close(end.leave[1]);
	ranks[0].self.place.pid = getpid();
	ranks[0].settings.rendezvous_fd = fd;
	ranks[0].settings.port = port;
	ranks[0].settings.unreachable_ms = 10000;
	if (!control_join_and_open(&ranks[0])) {
		if (end.child[1])
			begin_child();
		if (read(end.leave[0], &byte, 1) == 0)
			control_leave(&ranks[0]);
	}
	fprintf(stderr, "rank 0: %s\n", ranks[0].reason);
	_exit(ranks[0].error);
}

static void begin(void)
{
	struct rd_control_message message;
	int port, fd = listen_at("0.0.0.0", &port);

	for (int i = 0; i < 2; i++)
		control_prepare_rank(&ranks[i], i, 2, port, NULL);
	begin_rank_0(fd, port);
	end.fd = connect_to(port);
	say_hello();
	await(RD_CONTROL_TABLE, &message);
	end.comm_id = message.table.comm_id;
	end.port = message.table.port;
	cr_assert_gt(end.port, 0);
	message = (struct rd_control_message){ .kind = RD_CONTROL_READY,
		.ready.limits = { 999, false, 1, 99 } };
	send_message(end.fd, &message);
	await(RD_CONTROL_GO, &message);
}

static void reset(int fd)
{
	struct linger at_once = { 1, 0 };

	setsockopt(fd, SOL_SOCKET, SO_LINGER, &at_once, sizeof(at_once));
	close(fd);
}

static struct rd_control_message resume(void)
{
	return (struct rd_control_message){ .kind = RD_CONTROL_RESUME,
		.resume = { .comm_id = end.comm_id,
			.rank = 1,
			.attempt = ++end.attempt,
			.received = end.received } };
}

/* Another socket, over which rank 1 has asked to go on. */
static int ask(void)
{
	struct rd_control_message message = resume();
	int fd = connect_to((int)end.port);

	send_message(fd, &message);
	return fd;
}

/* The comm that rank 0 answers for. */
static uint64_t take_answer(int fd)
{
	unsigned char frame[RD_RESUME_FRAME];
	struct rd_control_message answer;
	size_t size = 0;

	while (size < sizeof(frame)) {
		ssize_t got = receive_within(fd, frame + size, sizeof(frame) - size);

		cr_assert_gt(got, 0, "rank 0 did not answer");
		size += (size_t)got;
	}
	cr_assert_eq(rd_control_decode(frame, size, &answer), RD_RESUME_FRAME);
	cr_assert_eq(answer.kind, RD_CONTROL_RESUME);
	return answer.resume.comm_id;
}

/* Goes on over that socket, once rank 0 has answered. */
static void go_on(int fd)
{
	unsigned char confirmation = 0;

	cr_assert_eq(take_answer(fd), end.comm_id);
	cr_assert_eq(send(fd, &confirmation, 1, 0), 1);
	end.fd = fd;
	end.size = 0;
}

static void expect_closed(int fd)
{
	char byte;

	cr_expect_leq(receive_within(fd, &byte, 1), 0, "rank 0 answered");
	close(fd);
}

/* Both leave, without an error. */
static void leave(void)
{
	struct rd_control_message message = { .kind = RD_CONTROL_BYE };
	struct rusage usage;
	int status;

	close(end.leave[1]);
	send_message(end.fd, &message);
	await(RD_CONTROL_BYE_ACK, &message);
	close(end.fd);
	cr_assert_eq(wait4(end.rank_0, &status, 0, &usage), end.rank_0);
	end.spent_ms = (usage.ru_utime.tv_sec + usage.ru_stime.tv_sec) * 1000 +
		       (usage.ru_utime.tv_usec + usage.ru_stime.tv_usec) / 1000;
	cr_expect_eq(status, 0, "rank 0: %x", status);
	close(end.line_fd);
}

Test(control_reconnect, a_rank_goes_on, .timeout = 30)
{
	begin();
	reset(end.fd);
	go_on(ask());
	leave();
}

/* The rank gave that attempt up before rank 0 answered. */
Test(control_reconnect, an_attempt_that_was_given_up_is_no_death, .timeout = 30)
{
	begin();
	kill(end.rank_0, SIGSTOP);
	reset(end.fd);
	close(ask());
	kill(end.rank_0, SIGCONT);
	poll(NULL, 0, 100);
	go_on(ask());
	leave();
}

/* It was on its way while a later one went on: rank 0 goes on with that one. */
Test(control_reconnect, a_late_attempt_does_not_replace_its_successor, .timeout = 30)
{
	struct rd_control_message late;
	int fd;

	begin();
	reset(end.fd);
	fd = connect_to((int)end.port);
	late = resume();
	go_on(ask());
	send_message(fd, &late);
	expect_closed(fd);
	leave();
}

/* Its answer says so. */
Test(control_reconnect, a_rank_that_is_not_awaited_is_refused, .timeout = 30)
{
	struct rd_control_message message;
	int fd;

	begin();
	fd = connect_to((int)end.port);
	message = resume();
	message.resume.comm_id++;
	send_message(fd, &message);
	cr_expect_eq(take_answer(fd), 0);
	expect_closed(fd);
	leave();
}

Test(control_reconnect, a_crowd_drives_no_rank_away, .timeout = 30)
{
	int crowd[CROWD], fd;

	begin();
	kill(end.rank_0, SIGSTOP);
	reset(end.fd);
	fd = ask();
	for (int i = 0; i < CROWD; i++)
		crowd[i] = connect_to((int)end.port);
	kill(end.rank_0, SIGCONT);
	go_on(fd);
	leave();
	for (int i = 0; i < CROWD; i++)
		close(crowd[i]);
}

/* ---- Time ---------------------------------------------------------------------------------- */

Test(control_reconnect, a_connection_that_goes_on_wakes_nobody, .timeout = 30)
{
	begin();
	for (int i = 0; i < 8; i++) {
		reset(end.fd);
		go_on(ask());
		poll(NULL, 0, 100);
	}
	leave();
	cr_expect_lt(end.spent_ms, 250, "rank 0 spun for %ld ms", end.spent_ms);
}

/* Heartbeats of each look at the silence of hosts; others come each 2.5 s. */
Test(control_reconnect, after_an_outage_rank_0_looks_for_silence, .timeout = 30)
{
	struct rd_control_message message;
	int64_t since_ms;

	begin();
	reset(end.fd);
	poll(NULL, 0, 700);
	go_on(ask());
	await(RD_CONTROL_HEARTBEAT, &message);
	since_ms = rd_clock_ms();
	for (int i = 0; i < 3; i++)
		await(RD_CONTROL_HEARTBEAT, &message);
	cr_expect_lt(rd_clock_ms() - since_ms, 5000);
	leave();
}

/* ---- Processes ----------------------------------------------------------------------------- */

/* A child that outlives rank 0 holds no socket: the port refuses at once. */
Test(control_reconnect, a_child_of_rank_0_takes_no_connection, .timeout = 30)
{
	struct sockaddr_in at = { .sin_family = AF_INET };
	int fd = socket(AF_INET, SOCK_STREAM, 0);
	char byte;

	cr_assert_eq(pipe(end.child), 0);
	begin();
	close(end.child[1]);
	cr_assert_eq(receive_byte(end.child[0], &byte), 1);
	kill(end.rank_0, SIGKILL);
	cr_assert_eq(waitpid(end.rank_0, NULL, 0), end.rank_0);
	at.sin_port = htons((uint16_t)end.port);
	inet_pton(AF_INET, "127.0.0.2", &at.sin_addr);
	cr_expect_eq(connect(fd, (struct sockaddr *)&at, sizeof(at)), -1);
	cr_expect_eq(errno, ECONNREFUSED);
	close(fd);
}

/* ---- Rank 1's side ------------------------------------------------------------------------- */

/* The descriptor of this process that is connected to the port, or, with `other`, to another of
   127.0.0.2; -1: none. */
static int find_socket(int port, bool other)
{
	for (int fd = 3; fd < 200; fd++) {
		struct sockaddr_in at = { 0 };
		socklen_t size = sizeof(at);

		if (getpeername(fd, (struct sockaddr *)&at, &size) == 0 &&
			at.sin_addr.s_addr == htonl(INADDR_LOOPBACK + 1) &&
			(ntohs(at.sin_port) == port) != other)
			return fd;
	}
	return -1;
}

static void join_rank_0(int *port)
{
	int fd = listen_at("0.0.0.0", port);

	for (int i = 0; i < 2; i++)
		control_prepare_rank(&ranks[i], i, 2, *port, NULL);
	begin_rank_0(fd, *port);
	ranks[1].self.place.pid = getpid();
	strcpy(ranks[1].settings.address, "127.0.0.2");
	ranks[1].settings.unreachable_ms = 10000;
	cr_assert_eq(control_join_and_open(&ranks[1]), 0, "%s", ranks[1].reason);
}

Test(control_reconnect, a_rank_that_ends_in_an_outage_leaves_no_descriptor, .timeout = 30)
{
	struct sockaddr nowhere = { .sa_family = AF_UNSPEC };
	int port, files = count_files();

	join_rank_0(&port);
	kill(end.rank_0, SIGSTOP);
	/* To the kernel, a reset. */
	cr_assert_eq(connect(find_socket(port, false), &nowhere, sizeof(nowhere)), 0);
	for (int i = 0; i < 2000 && find_socket(port, true) < 0; i++)
		poll(NULL, 0, 1);
	cr_assert_geq(find_socket(port, true), 0, "it made no attempt");
	rd_control_destroy(ranks[1].control);
	close(ranks[1].wake_fd);
	close(end.leave[1]);
	cr_expect_eq(count_files(), files);
	kill(end.rank_0, SIGKILL);
	waitpid(end.rank_0, NULL, 0);
}

/* Rank 1, in a process of its own, which ends with the error of its verdict. */
static pid_t fork_rank_1(int go)
{
	pid_t pid = fork();
	int port;

	if (pid)
		return pid;
	join_rank_0(&port);
	if (write(go, &end.rank_0, sizeof(end.rank_0)) == sizeof(end.rank_0))
		control_await_verdict(&ranks[1]);
	_exit(ranks[1].error == RONDO_DIED ? 0 : 1);
}

/* A rank 0 of this host, with unread messages, dies while rank 1 is stopped: its kernel resets the
   connection, and the watch reports the death as well. */
Test(control_reconnect, a_death_beside_a_reset_is_found_once, .timeout = 60)
{
	for (int i = 0; i < 6; i++) {
		int go[2], status;
		pid_t pid, rank_0;

		cr_assert_eq(pipe(go), 0);
		pid = fork_rank_1(go[1]);
		cr_assert_eq(read(go[0], &rank_0, sizeof(rank_0)), (ssize_t)sizeof(rank_0));
		kill(rank_0, SIGSTOP);
		poll(NULL, 0, 400);
		kill(pid, SIGSTOP);
		kill(rank_0, SIGKILL);
		poll(NULL, 0, 20);
		kill(pid, SIGCONT);
		for (int n = 0; n < 300 && waitpid(pid, &status, WNOHANG) == 0; n++) {
			poll(NULL, 0, 10);
			status = -1;
		}
		kill(pid, SIGKILL);
		cr_expect_eq(status, 0, "round %d: rank 1: %x", i, status);
		close(go[0]);
		close(go[1]);
	}
}
