/* A connection of two of rondo-run's agents, over the loopback interface: plain, and with a
   secret. */
#include <criterion/criterion.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/port.h"
#include "base/clock.h"
#include "rondo.h"
#include "run/nodes/endpoint.h"
#include "run/nodes/peer.h"
#include "secure/tls.h"

#define LIMIT_MS 20000

static struct peer here, there;
static struct polls polls;
static int listener;
static struct secret secret, secret_there;

static void use_secret(void)
{
	secret.has_psk = rd_tls_load() == 0;
	if (!secret.has_psk)
		cr_skip("%s", rondo_last_error());
	strcpy((char *)secret.psk, "of this job");
	secret_there = secret;
}

/* Twice. */
#define TRY(name) \
	static void name(void); \
	Test(run_peer, name, .timeout = 60) \
	{ \
		name(); \
	} \
	Test(run_peer_with_secret, name, .timeout = 60, .init = use_secret) \
	{ \
		name(); \
	} \
	static void name(void)

static void connect_to(int port)
{
	struct rd_addresses at;

	cr_assert_null(rd_addresses_find(&at, "127.0.0.1", port, 0));
	peer_connect(&here, &at, 0, &secret);
}

static void open_peers(void)
{
	struct rd_wire wire = RD_WIRE(-1);
	struct pollfd comes;

	listener = endpoint_listen(NULL, 0);
	cr_assert_geq(listener, 0);
	connect_to(rd_port_of(listener));
	comes = (struct pollfd){ .fd = listener, .events = POLLIN };
	cr_assert_eq(poll(&comes, 1, LIMIT_MS), 1);
	wire.fd = accept4(listener, NULL, NULL, SOCK_NONBLOCK);
	if (secret_there.has_psk)
		cr_assert_eq(rd_wire_secure(&wire, true, secret_there.psk), 0);
	peer_adopt(&there, &wire);
	cr_assert_str_eq(there.address, "127.0.0.1");
}

static void close_peers(void)
{
	peer_close(&here);
	peer_close(&there);
	polls_finish(&polls);
	close(listener);
}

/* One turn of a main loop for those that take part. */
static void turn(struct peer *one, struct peer *other)
{
	polls.count = 0;
	peer_add_polls(one, &polls);
	if (other)
		peer_add_polls(other, &polls);
	poll(polls.fds, (nfds_t)polls.count, 10);
	peer_take_polls(one, &polls);
	peer_on_clock(one, rd_clock_ms());
	if (!other)
		return;
	peer_take_polls(other, &polls);
	peer_on_clock(other, rd_clock_ms());
}

/* Until `there` has a message, or is lost. */
static bool receive(struct message *message)
{
	for (int64_t end_ms = rd_clock_ms() + LIMIT_MS; rd_clock_ms() < end_ms;) {
		turn(&here, &there);
		if (peer_next(&there, message))
			return true;
		if (there.lost)
			return false;
	}
	cr_assert_fail("nothing comes");
	return false;
}

/* Also those that were sent before the connection was there, and before its end. */
TRY(gets_all_messages_in_their_order_and_then_the_end)
{
	struct message message = { .type = MESSAGE_LEAVE };

	open_peers();
	memset(message.leave.reason, 'x', REASON_SIZE - 1);
	for (int i = 0; i < 200; i++) {
		message.leave.status = i;
		peer_send(&here, &message);
	}
	peer_end(&here);
	for (int i = 0; i < 200; i++) {
		cr_assert(receive(&message), "message %d: %s", i, there.reason);
		cr_assert_eq(message.leave.status, i);
	}
	cr_assert_not(receive(&message));
	cr_assert_str_eq(there.reason, "its rondo-run has ended");
	/* The end of the other side completes its own. */
	peer_close(&there);
	while (!here.lost)
		turn(&here, NULL);
	close_peers();
}

/* Pings alone keep it: they are no messages to the caller. */
TRY(stays_while_nothing_is_sent)
{
	struct message message;

	open_peers();
	for (int64_t end_ms = rd_clock_ms() + 500; rd_clock_ms() < end_ms;) {
		turn(&here, &there);
		cr_assert_not(peer_next(&there, &message));
	}
	cr_assert_not(here.lost || there.lost);
	close_peers();
}

TRY(that_does_not_read_is_lost_before_it_takes_all_memory)
{
	struct message message = { .type = MESSAGE_LEAVE };

	open_peers();
	memset(message.leave.reason, 'x', REASON_SIZE - 1);
	turn(&here, NULL);
	/* More than the kernel keeps. */
	for (int i = 0; i < 40000; i++)
		peer_send(&here, &message);
	/* On a slow machine the kernel may give up first. */
	cr_assert(here.lost);
	cr_assert_leq(here.connection.out_size, (size_t)1 << 20);
	close_peers();
}

Test(run_peer, that_sends_something_else_is_foreign, .timeout = 60)
{
	struct message message;

	open_peers();
	turn(&here, &there);
	cr_assert_eq(write(here.connection.wire.fd, "GET / HTTP/1.1\r\n\r\n", 18), 18);
	cr_assert_not(receive(&message));
	cr_assert(there.foreign);
	close_peers();
}

TRY(that_nobody_accepts_is_lost_with_the_reason)
{
	int fd;

	connect_to(endpoint_reserve(0, &fd));
	while (!here.lost)
		turn(&here, NULL);
	cr_assert_str_eq(here.reason, "Connection refused");
	peer_close(&here);
	polls_finish(&polls);
	close(fd);
}

Test(run_peer_with_secret, that_has_another_one_is_foreign, .timeout = 60, .init = use_secret)
{
	struct message message = { .type = MESSAGE_LEAVE };

	secret_there.psk[0]++;
	open_peers();
	peer_send(&here, &message);
	cr_assert_not(receive(&message));
	cr_assert(there.foreign);
	while (!here.lost)
		turn(&here, NULL);
	cr_assert(here.foreign);
	cr_assert(strstr(here.reason, "another secret"), "%s", here.reason);
	close_peers();
}

Test(run_peer_with_secret, finds_no_other_that_has_none, .timeout = 60, .init = use_secret)
{
	struct message message = { .type = MESSAGE_LEAVE };

	secret_there.has_psk = false;
	open_peers();
	peer_send(&here, &message);
	cr_assert_not(receive(&message));
	cr_assert(there.foreign);
	peer_close(&there);
	while (!here.lost)
		turn(&here, NULL);
	cr_assert(strstr(here.reason, "it may have no secret"), "%s", here.reason);
	close_peers();
}
