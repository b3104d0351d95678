/* A door: which connections reach its owner, and what foreign ones cost. Time is the test's. */
#include <arpa/inet.h>
#include <criterion/criterion.h>
#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/error.h"
#include "base/port.h"
#include "net/door.h"
#include "net/socket.h"

#define GREETING_MS 2000
#define MOST 4

static const unsigned char key[RD_PSK_SIZE] = "the key of this job";
static const unsigned char other_key[RD_PSK_SIZE] = "the key of another job";

/* '!', the size of the whole greeting, and what is left of it. */
static long greeting_size(const unsigned char *bytes, size_t size)
{
	if (size > 0 && bytes[0] != '!')
		return -1;
	return size < 2 ? 2 : bytes[1];
}

static const struct rd_door_rules plain = {
	.most = MOST, .greeting_ms = GREETING_MS, .greeting_most = 8, .greeting_size = greeting_size
};
static const struct rd_door_rules secret = { .psk = key,
	.most = MOST,
	.greeting_ms = GREETING_MS,
	.greeting_most = 8,
	.greeting_size = greeting_size };

static struct rd_door *door;
static struct sockaddr_in address;
static int64_t now_ms;

static void load(void)
{
	if (rd_tls_load())
		cr_skip("%s", rondo_last_error());
}

static int listen_at_any(void)
{
	socklen_t size = sizeof(address);
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);

	address = (struct sockaddr_in){ .sin_family = AF_INET,
		.sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
	cr_assert_eq(bind(fd, (struct sockaddr *)&address, sizeof(address)), 0);
	cr_assert_eq(listen(fd, RD_BACKLOG), 0);
	cr_assert_eq(getsockname(fd, (struct sockaddr *)&address, &size), 0);
	return fd;
}

static void open_door(const struct rd_door_rules *rules)
{
	now_ms = 1000;
	cr_assert_eq(rd_door_create(&door, rules), 0);
	cr_assert_eq(rd_door_listen(door, listen_at_any()), 0);
}

static void await_event(void)
{
	struct pollfd fd = { .fd = rd_door_fd(door), .events = POLLIN };

	cr_assert_eq(poll(&fd, 1, 10000), 1);
}

static void serve(void)
{
	await_event();
	rd_door_serve(door, now_ms);
}

static int dial(void)
{
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

	cr_assert_eq(connect(fd, (struct sockaddr *)&address, sizeof(address)), 0);
	return fd;
}

static int dial_with(const char *bytes, size_t size)
{
	int fd = dial();

	cr_assert_eq(send(fd, bytes, size, 0), (ssize_t)size);
	return fd;
}

/* A connection that is accepted, and says nothing. */
static int dial_silently(void)
{
	int fd = dial();

	serve();
	return fd;
}

/* Whether the door has hung up; else nothing has come from there. */
static bool is_closed(int fd)
{
	char byte;
	ssize_t got = recv(fd, &byte, 1, MSG_DONTWAIT);

	cr_assert(got <= 0);
	return got == 0 || errno == ECONNRESET;
}

static void expect_arrival(const char *greeting, size_t size)
{
	struct rd_arrival *arrival = rd_door_next(door);

	cr_assert(arrival);
	cr_expect_eq(arrival->greeting_size, size);
	cr_expect_arr_eq(arrival->greeting, greeting, size);
	rd_wire_close(&arrival->wire);
	free(arrival);
}

static void expect_no_arrival(void)
{
	cr_expect(!rd_door_next(door));
}

TestSuite(door, .timeout = 60);

Test(door, hands_over_a_connection_with_its_greeting_alone)
{
	struct rd_arrival *arrival;
	char rest[8];
	int fd;

	open_door(&plain);
	fd = dial_with("!\4abcd", 6);
	serve();
	arrival = rd_door_next(door);
	cr_assert(arrival);
	cr_expect_eq(arrival->greeting_size, 4);
	cr_expect_arr_eq(arrival->greeting, "!\4ab", 4);
	cr_expect_eq(recv(arrival->wire.fd, rest, sizeof(rest), 0), 2);
	cr_expect_arr_eq(rest, "cd", 2);
	expect_no_arrival();
	cr_expect_eq(rd_door_deadline(door), RD_NEVER);
	rd_wire_close(&arrival->wire);
	free(arrival);
	close(fd);
	rd_door_destroy(door);
}

Test(door, waits_for_the_rest_of_a_greeting)
{
	int fd;

	open_door(&plain);
	fd = dial_with("!", 1);
	serve();
	expect_no_arrival();
	cr_expect_eq(rd_door_deadline(door), now_ms + GREETING_MS);
	send(fd, "\3a", 2, 0);
	serve();
	expect_arrival("!\3a", 3);
	close(fd);
	rd_door_destroy(door);
}

Test(door, closes_what_is_no_greeting_at_once)
{
	int foreign, large, leaves;

	open_door(&plain);
	foreign = dial_with("G", 1);
	large = dial_with("!\11", 2);
	leaves = dial_with("!", 1);
	close(leaves);
	for (int i = 0; i < 3; i++)
		rd_door_serve(door, now_ms);
	expect_no_arrival();
	cr_expect(is_closed(foreign));
	cr_expect(is_closed(large));
	cr_expect_eq(rd_door_foreign(door), 2, "one that leaves is not foreign");
	cr_expect_eq(rd_door_deadline(door), RD_NEVER);
	close(foreign);
	close(large);
	rd_door_destroy(door);
}

Test(door, closes_a_silent_connection_when_its_time_is_over)
{
	int fd;

	open_door(&plain);
	fd = dial_silently();
	now_ms = rd_door_deadline(door) - 1;
	rd_door_serve(door, now_ms);
	cr_expect(!is_closed(fd));
	now_ms++;
	rd_door_serve(door, now_ms);
	cr_expect(is_closed(fd));
	cr_expect_eq(rd_door_foreign(door), 0);
	close(fd);
	rd_door_destroy(door);
}

Test(door, reads_what_has_come_before_it_closes_a_late_connection)
{
	int fd;

	open_door(&plain);
	fd = dial_silently();
	send(fd, "!\2", 2, 0);
	now_ms += GREETING_MS;
	serve();
	expect_arrival("!\2", 2);
	close(fd);
	rd_door_destroy(door);
}

Test(door, a_newcomer_takes_the_place_of_the_oldest)
{
	int fds[MOST + 2];

	open_door(&plain);
	for (int i = 0; i < MOST; i++)
		fds[i] = dial_silently();
	/* Its greeting has come, and is not read: it is not lost. */
	send(fds[0], "!\2", 2, 0);
	fds[MOST] = dial();
	fds[MOST + 1] = dial();
	rd_door_serve(door, now_ms);
	expect_arrival("!\2", 2);
	expect_no_arrival();
	cr_expect(is_closed(fds[1]));
	for (int i = 2; i < MOST + 2; i++)
		cr_expect(!is_closed(fds[i]), "%d", i);
	for (int i = 0; i < MOST + 2; i++)
		close(fds[i]);
	rd_door_destroy(door);
}

/* Until both sides wait for bytes. */
static int prove_at(struct rd_wire *wire)
{
	int result = rd_wire_prove(wire);

	for (int i = 0; i < 3 && result == 0; i++) {
		serve();
		result = rd_wire_prove(wire);
	}
	return result;
}

static struct rd_wire dial_secured(const unsigned char *with)
{
	struct rd_wire wire = RD_WIRE(dial());

	cr_assert_eq(rd_wire_secure(&wire, false, with), 0);
	return wire;
}

static void greet(struct rd_wire *wire)
{
	struct iovec greeting = { "!\3a", 3 };

	cr_assert_eq(rd_wire_send(wire, &greeting, 1), 3);
	serve();
}

Test(door, hears_a_greeting_behind_the_proof_alone, .init = load)
{
	struct rd_wire right, wrong;
	int none;

	open_door(&secret);
	right = dial_secured(key);
	wrong = dial_secured(other_key);
	none = dial_with("GET / HTTP/1.1\r\n", 16);
	rd_wire_prove(&wrong);
	cr_expect_eq(prove_at(&right), 1);
	greet(&right);
	expect_arrival("!\3a", 3);
	expect_no_arrival();
	cr_expect_lt(prove_at(&wrong), 0);
	cr_expect_eq(rd_door_foreign(door), 2);
	cr_expect_eq(rd_door_deadline(door), RD_NEVER);
	rd_wire_close(&right);
	rd_wire_close(&wrong);
	close(none);
	rd_door_destroy(door);
}

Test(door, one_that_has_shown_the_secret_is_closed_last, .init = load)
{
	struct rd_wire right;
	int fds[2 * MOST];

	open_door(&secret);
	right = dial_secured(key);
	cr_expect_eq(prove_at(&right), 1);
	for (int i = 0; i < 2 * MOST; i++)
		fds[i] = dial_silently();
	greet(&right);
	expect_arrival("!\3a", 3);
	rd_wire_close(&right);
	for (int i = 0; i < 2 * MOST; i++)
		close(fds[i]);
	rd_door_destroy(door);
}

Test(door, takes_a_plain_greeting_too_where_the_rules_say_so, .init = load)
{
	struct rd_door_rules rules = secret;
	struct rd_arrival *arrival;
	struct rd_wire right;
	int fd;

	rules.takes_plain = true;
	open_door(&rules);
	right = dial_secured(key);
	cr_expect_eq(prove_at(&right), 1);
	greet(&right);
	arrival = rd_door_next(door);
	cr_assert(arrival && arrival->wire.keyed);
	rd_wire_close(&arrival->wire);
	free(arrival);
	fd = dial_with("!\2", 2);
	serve();
	arrival = rd_door_next(door);
	cr_assert(arrival && !arrival->wire.keyed);
	rd_wire_close(&arrival->wire);
	free(arrival);
	rd_wire_close(&right);
	close(fd);
	rd_door_destroy(door);
}

/* As a process that may have descriptors below `limit` alone. */
static void serve_below(int limit)
{
	struct rlimit before, few;

	await_event();
	cr_assert_eq(getrlimit(RLIMIT_NOFILE, &before), 0);
	few = before;
	few.rlim_cur = (rlim_t)limit;
	cr_assert_eq(setrlimit(RLIMIT_NOFILE, &few), 0);
	rd_door_serve(door, now_ms);
	cr_assert_eq(setrlimit(RLIMIT_NOFILE, &before), 0);
}

Test(door, rests_where_it_has_no_descriptor_and_continues_later)
{
	int64_t since_ms;
	int fd;

	open_door(&plain);
	fd = dial_with("!\2", 2);
	serve_below(1);
	cr_expect_eq(rd_door_error(door, &since_ms), EMFILE);
	cr_expect_eq(since_ms, now_ms);
	cr_expect_eq(poll(&(struct pollfd){ .fd = rd_door_fd(door), .events = POLLIN }, 1, 0), 0);
	now_ms = rd_door_deadline(door);
	rd_door_serve(door, now_ms);
	cr_expect_eq(rd_door_error(door, NULL), 0);
	expect_arrival("!\2", 2);
	close(fd);
	rd_door_destroy(door);
}

Test(door, closes_the_oldest_where_descriptors_lack)
{
	int fds[2];

	open_door(&plain);
	fds[0] = dial_silently();
	fds[1] = dial_with("!\2", 2);
	/* The limit refuses even the descriptor that the oldest gives back. */
	serve_below(1);
	cr_expect(is_closed(fds[0]));
	cr_expect_eq(rd_door_error(door, NULL), EMFILE);
	now_ms = rd_door_deadline(door);
	rd_door_serve(door, now_ms);
	expect_arrival("!\2", 2);
	close(fds[0]);
	close(fds[1]);
	rd_door_destroy(door);
}

/* A forked child that lives on keeps no descriptor open. */
Test(door, a_forked_child_has_none_of_its_descriptors)
{
	int fd, ends[2], status;
	pid_t child;
	char byte;

	cr_assert_eq(pipe(ends), 0);
	open_door(&plain);
	fd = dial_silently();
	child = fork();
	cr_assert_geq(child, 0);
	if (child == 0) {
		close(fd);
		close(ends[1]);
		(void)!read(ends[0], &byte, 1);
		_exit(rd_door_fd(door) != -1);
	}
	rd_door_destroy(door);
	cr_assert_eq(poll(&(struct pollfd){ .fd = fd, .events = POLLIN }, 1, 10000), 1);
	cr_expect(is_closed(fd));
	close(ends[1]);
	cr_assert_eq(waitpid(child, &status, 0), child);
	cr_expect_eq(status, 0);
	close(fd);
	close(ends[0]);
}

Test(door, serves_several_listening_sockets_until_they_are_closed)
{
	struct sockaddr_in first;
	int fd;

	open_door(&plain);
	first = address;
	cr_assert_eq(rd_door_listen(door, listen_at_any()), 0);
	fd = dial_with("!\2", 2);
	serve();
	expect_arrival("!\2", 2);
	close(fd);
	address = first;
	fd = dial_with("!\3b", 3);
	serve();
	expect_arrival("!\3b", 3);
	close(fd);
	rd_door_close(door);
	fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	cr_expect_eq(connect(fd, (struct sockaddr *)&address, sizeof(address)), -1);
	close(fd);
	rd_door_destroy(door);
}

/* The last descriptor is the last connection's: nothing is wrong. */
Test(door, needs_no_descriptor_for_connections_that_do_not_come)
{
	int fd, next;

	open_door(&plain);
	fd = dial_with("!\2", 2);
	next = dup(fd);
	close(next);
	serve_below(next + 1);
	cr_expect_eq(rd_door_error(door, NULL), 0);
	expect_arrival("!\2", 2);
	close(fd);
	rd_door_destroy(door);
}

/* Sockets that another program has opened for rank 0. */

static int listen_with(int backlog)
{
	struct sockaddr_in at = { .sin_family = AF_INET,
		.sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

	cr_assert_eq(bind(fd, (struct sockaddr *)&at, sizeof(at)), 0);
	cr_assert_eq(listen(fd, backlog), 0);
	return fd;
}

/* The kernel gives the backlog of a listening socket in this field. */
static unsigned backlog_of(int fd)
{
	struct tcp_info info = { 0 };
	socklen_t size = sizeof(info);

	cr_assert_eq(getsockopt(fd, IPPROTO_TCP, TCP_INFO, &info, &size), 0);
	return info.tcpi_sacked;
}

Test(socket, one_with_a_short_backlog_gets_room_for_all_ranks)
{
	int full = listen_with(RD_BACKLOG), fd = listen_with(8), listener;
	struct rd_settings settings = { .rendezvous_fd = fd };
	struct rd_addresses none = { 0 };

	cr_assert_eq(backlog_of(fd), 8);
	cr_assert_eq(rd_listen(&listener, &none, &settings), 0);
	cr_expect_eq(listener, fd);
	cr_expect_eq(backlog_of(fd), backlog_of(full));
	close(fd);
	close(full);
}
