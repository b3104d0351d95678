/* The handshake of tcp: connections that are accepted or refused, and the addresses that are
   tried. */
#include <criterion/criterion.h>
#include <arpa/inet.h>
#include <fcntl.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "net/door.h"
#include "transports/contract/leaks.h"
#include "transports/contract/suite.h"
#include "transports/shared.h"
#include "tcp/fakes.h"

static void try_address(const char *address)
{
	struct pair pair;

	pair_open(&pair, address);
	cr_assert(try_send(pair.zero.link, 1, 1000));
	cr_assert(try_send(pair.one.link, 2, PIECE));
	rank_recv(&pair.one, 1, 1000, NULL, 0);
	rank_recv(&pair.zero, 2, PIECE, NULL, 0);
	pair_close(&pair);
}

Test(tcp, links_over_ipv4, .timeout = 60)
{
	try_address("127.0.0.1");
}

Test(tcp, links_over_ipv6, .timeout = 60)
{
	struct rank rank;
	int err = rank_listen(&rank, 0, "::1", "");

	rank_close(&rank);
	if (err)
		cr_skip_test("this machine has no IPv6");
	try_address("::1");
}

Test(tcp, links_over_an_interface_that_leads_out, .timeout = 60)
{
	struct ifaddrs *all;
	char text[INET_ADDRSTRLEN] = "";

	cr_assert_eq(getifaddrs(&all), 0);
	for (struct ifaddrs *one = all; one; one = one->ifa_next)
		if (one->ifa_addr && one->ifa_addr->sa_family == AF_INET &&
			(one->ifa_flags & IFF_UP) && !(one->ifa_flags & IFF_LOOPBACK))
			inet_ntop(AF_INET, &((struct sockaddr_in *)one->ifa_addr)->sin_addr, text,
				sizeof(text));
	freeifaddrs(all);
	if (!text[0])
		cr_skip_test("this machine has the loopback alone");
	try_address(text);
}

Test(tcp, a_connection_that_comes_before_open_waits_for_it, .timeout = 60)
{
	struct pair pair;

	cr_assert_eq(rank_listen(&pair.zero, 0, "127.0.0.1", ""), 0);
	cr_assert_eq(rank_listen(&pair.one, 1, "127.0.0.1", ""), 0);
	rank_open(&pair.one, 0, pair.zero.card, pair.zero.card_size);
	/* Long enough for the hello to be read: it is the second thing that happens. */
	for (int i = 0; i < 1000; i++)
		pair_advance(&pair);
	cr_assert(!pair.one.link->ready && !pair.one.link->error, "%s", pair.one.link->reason);
	rank_open(&pair.zero, 1, pair.one.card, pair.one.card_size);
	cr_assert(pair.zero.link->ready, "it was there");
	AWAIT(pair.one.link->ready, pair_advance(&pair));
	pair_close(&pair);
}

Test(tcp, a_connection_that_ends_before_open_breaks_its_link, .timeout = 60)
{
	struct rank rank;
	int listener = fake_bind(), fd;
	struct card card = fake_card(listener);
	struct hello hello;

	cr_assert_eq(rank_listen(&rank, 0, "127.0.0.1", ""), 0);
	hello = fake_hello(&rank, 1);
	fd = fake_connect(&rank);
	fake_write(fd, &hello, sizeof(hello));
	rank_advance_long(&rank);
	close(fd);
	rank_advance_long(&rank);
	rank_open(&rank, 1, &card, sizeof(card));
	AWAIT(rank.link->error, rank_advance(&rank));
	cr_assert_eq(rank.link->error, RONDO_BROKEN);
	close(listener);
	rank_close(&rank);
}

Test(tcp, a_refused_connection_is_unreachable, .timeout = 60)
{
	struct rank rank;
	int fd = fake_bind();
	struct card card = fake_card(fd);

	cr_assert_eq(rank_listen(&rank, 1, "127.0.0.1", ""), 0);
	rank_open(&rank, 0, &card, sizeof(card));
	AWAIT(rank.link->error, rank_advance(&rank));
	cr_assert_eq(rank.link->error, RONDO_UNREACHABLE);
	cr_assert(strstr(rank.link->reason, "cannot be reached at 127.0.0.1:"), "%s",
		rank.link->reason);
	cr_assert(strstr(rank.link->reason, "Connection refused"), "%s", rank.link->reason);
	close(fd);
	rank_close(&rank);
}

/* Puts an address before those of the card. */
static struct card with_first(struct card card, int fd)
{
	struct sockaddr_in address = fake_address(fd);

	memmove(&card.more[0], &card.family, sizeof(card.more[0]));
	card.count++;
	card.port = ntohs(address.sin_port);
	memcpy(card.address, &address.sin_addr, 4);
	return card;
}

/* Rank 1 connects to rank 0, whose card begins with the address of the fake. */
static void connect_by_second(int first)
{
	struct pair pair;
	struct card card;

	cr_assert_eq(rank_listen(&pair.zero, 0, "127.0.0.1", ""), 0);
	cr_assert_eq(rank_listen(&pair.one, 1, "127.0.0.1", ""), 0);
	card = with_first(card_of(&pair.zero), first);
	rank_open(&pair.zero, 1, pair.one.card, pair.one.card_size);
	rank_open(&pair.one, 0, &card, sizeof(card));
	AWAIT(pair.zero.link->ready && pair.one.link->ready, {
		int fd = accept4(first, NULL, NULL, SOCK_NONBLOCK);

		if (fd >= 0)
			close(fd);
		pair_advance(&pair);
	});
	cr_assert(try_send(pair.one.link, 1, 1000));
	rank_recv(&pair.zero, 1, 1000, NULL, 0);
	pair_close(&pair);
	close(first);
}

Test(tcp, an_address_that_is_refused_gives_way_to_the_next, .timeout = 60)
{
	connect_by_second(fake_bind());
}

Test(tcp, an_address_that_hangs_up_gives_way_to_the_next, .timeout = 60)
{
	int fd = fake_bind();

	cr_assert_eq(listen(fd, 8), 0);
	cr_assert_eq(fcntl(fd, F_SETFL, O_NONBLOCK), 0);
	connect_by_second(fd);
}

/* The local port of the socket that is connected to this port; 0: there is none. */
static int port_towards(int port)
{
	for (int fd = 0; fd < 1024; fd++) {
		struct sockaddr_in here, there;
		socklen_t here_size = sizeof(here), there_size = sizeof(there);

		if (getpeername(fd, (struct sockaddr *)&there, &there_size) == 0 &&
			there.sin_family == AF_INET && ntohs(there.sin_port) == port &&
			getsockname(fd, (struct sockaddr *)&here, &here_size) == 0)
			return ntohs(here.sin_port);
	}
	return 0;
}

/* Rank 1 gets no answer at the first address: of a fake, or of rank 0, which opens its link after
   rank 1 has connected to its second address. */
static void connect_by_second_in_time(bool fake)
{
	struct pair pair;
	struct card card;
	int silent = fake_bind(), port, first;

	cr_assert_eq(listen(silent, 8), 0);
	cr_assert_eq(rank_listen(&pair.zero, 0, "127.0.0.1", ""), 0);
	cr_assert_eq(rank_listen(&pair.one, 1, "127.0.0.1", ""), 0);
	card = with_first(card_of(&pair.zero), silent);
	port = card.more[0].port;
	if (!fake)
		card.port = card.more[0].port;
	rank_open(&pair.one, 0, &card, sizeof(card));
	AWAIT((first = port_towards(card.port)) != 0, pair_advance(&pair));
	AWAIT(port_towards(port) != 0 && port_towards(port) != first, pair_advance(&pair));
	for (int i = 0; i < 1000; i++)
		pair_advance(&pair);
	cr_assert(!pair.one.link->error && !pair.one.link->ready, "%s", pair.one.link->reason);
	rank_open(&pair.zero, 1, pair.one.card, pair.one.card_size);
	AWAIT(pair.zero.link->ready && pair.one.link->ready, pair_advance(&pair));
	cr_assert(try_send(pair.one.link, 1, 1000));
	rank_recv(&pair.zero, 1, 1000, NULL, 0);
	cr_assert(!pair.zero.link->error, "%s", pair.zero.link->reason);
	pair_close(&pair);
	close(silent);
}

Test(tcp, an_address_without_an_answer_gives_way_to_the_next, .timeout = 60)
{
	connect_by_second_in_time(true);
}

Test(tcp, a_rank_that_opens_late_answers_at_the_next_address, .timeout = 60)
{
	connect_by_second_in_time(false);
}

Test(tcp, the_last_of_several_addresses_gives_the_reason, .timeout = 60)
{
	struct rank rank;
	int first = fake_bind(), second = fake_bind();
	struct card card = with_first(fake_card(second), first);
	char last[64];

	snprintf(last, sizeof(last), "cannot be reached at 127.0.0.1:%d: Connection refused",
		ntohs(fake_address(second).sin_port));
	cr_assert_eq(rank_listen(&rank, 1, "127.0.0.1", ""), 0);
	rank_open(&rank, 0, &card, sizeof(card));
	AWAIT(rank.link->error, rank_advance(&rank));
	cr_assert_eq(rank.link->error, RONDO_UNREACHABLE);
	cr_assert_str_eq(rank.link->reason, last);
	close(first);
	close(second);
	rank_close(&rank);
}

Test(tcp, channels_begin_with_one_shared_address_after_the_other, .timeout = 60)
{
	struct rank rank;
	int fds[2] = { fake_bind(), fake_bind() };
	struct card card = with_first(fake_card(fds[1]), fds[0]);

	card.shared = 2;
	cr_assert_eq(rank_listen(&rank, 1, "127.0.0.1", ""), 0);
	rank.local.comm_id = COMM;
	for (int i = 0; i < 2; i++) {
		cr_assert_eq(listen(fds[i], 8), 0);
		cr_assert_eq(fcntl(fds[i], F_SETFL, O_NONBLOCK), 0);
	}
	for (int channel = 0; channel < 4; channel++) {
		struct rd_link *link;
		int here = fds[channel % 2], there = fds[(channel + 1) % 2], fd;

		cr_assert_eq(rd_transport_tcp.open(rank.endpoint, 0, channel,
				     (unsigned char *)&card, sizeof(card), &link),
			0);
		AWAIT((fd = accept4(here, NULL, NULL, SOCK_NONBLOCK)) >= 0, rank_advance(&rank));
		close(fd);
		/* One for each: nothing came to the other. */
		cr_assert_lt(accept4(there, NULL, NULL, SOCK_NONBLOCK), 0);
	}
	close(fds[0]);
	close(fds[1]);
	rank_close(&rank);
}

Test(tcp, an_address_without_a_route_is_unreachable, .timeout = 60)
{
	struct rank rank;
	int fd = fake_bind();
	struct card card = fake_card(fd);

	memset(card.address, 0xff, 4);
	cr_assert_eq(rank_listen(&rank, 1, "127.0.0.1", ""), 0);
	rank_open(&rank, 0, &card, sizeof(card));
	AWAIT(rank.link->error, rank_advance(&rank));
	cr_assert_eq(rank.link->error, RONDO_UNREACHABLE);
	cr_assert(strstr(rank.link->reason, "cannot be reached at 255.255.255.255:"), "%s",
		rank.link->reason);
	close(fd);
	rank_close(&rank);
}

Test(tcp, a_silent_listener_blocks_no_caller, .timeout = 60)
{
	struct rank rank;
	int fd = fake_bind();
	struct card card = fake_card(fd);

	cr_assert_eq(listen(fd, 1), 0);
	cr_assert_eq(rank_listen(&rank, 1, "127.0.0.1", ""), 0);
	rank_open(&rank, 0, &card, sizeof(card));
	rank_advance_long(&rank);
	cr_assert(!rank.link->ready && !rank.link->error, "%s", rank.link->reason);
	cr_assert(!rank_has_message(&rank));
	cr_assert_null(rank.link->ops->reserve(rank.link, 1));
	close(fd);
	rank_close(&rank);
}

/* Rank 1 connects to a fake, which reads its hello and sends this answer. */
static void try_answer(const struct hello *patch, size_t size, int error, const char *reason)
{
	struct rank rank;
	int listener = fake_bind(), fd;
	struct card card = fake_card(listener);
	struct hello hello;

	cr_assert_eq(listen(listener, 1), 0);
	cr_assert_eq(rank_listen(&rank, 1, "127.0.0.1", ""), 0);
	rank_open(&rank, 0, &card, sizeof(card));
	fd = accept(listener, NULL, NULL);
	fake_read(fd, &rank, &hello, sizeof(hello));
	cr_assert(memcmp(hello.key, rank.local.key, sizeof(hello.key)) == 0);
	cr_assert_eq(hello.comm_id, COMM);
	fake_write(fd, patch, size);
	if (size < sizeof(*patch))
		close(fd);
	AWAIT(rank.link->error || rank.link->ready, rank_advance(&rank));
	cr_assert_eq(rank.link->error, error, "%s", rank.link->reason);
	cr_assert(strstr(rank.link->reason, reason), "%s", rank.link->reason);
	if (size == sizeof(*patch))
		close(fd);
	close(listener);
	rank_close(&rank);
}

Test(tcp, an_answer_without_the_key_is_refused, .timeout = 60)
{
	struct hello answer = { .magic = 0x68646f72, .version = 8, .to = 1, .comm_id = COMM };

	/* A valid answer carries the comm's key. */
	try_answer(&answer, sizeof(answer), RONDO_PROTOCOL, "someone else answers at 127.0.0.1:");
	try_answer(&answer, 0, RONDO_UNREACHABLE, "turned the connection away");
	try_answer(&answer, 20, RONDO_UNREACHABLE, "turned the connection away");
}

Test(tcp, another_comm_is_refused, .timeout = 60)
{
	struct pair pair;

	cr_assert_eq(rank_listen(&pair.zero, 0, "127.0.0.1", ""), 0);
	cr_assert_eq(rank_listen(&pair.one, 1, "127.0.0.1", ""), 0);
	rank_open(&pair.zero, 1, pair.one.card, pair.one.card_size);
	pair.zero.local.comm_id++;
	rank_open(&pair.one, 0, pair.zero.card, pair.zero.card_size);
	AWAIT(pair.one.link->error, pair_advance(&pair));
	cr_assert_eq(pair.one.link->error, RONDO_UNREACHABLE);
	cr_assert(!pair.zero.link->ready && !pair.zero.link->error);
	pair_close(&pair);
}

Test(tcp, strangers_are_rejected, .timeout = 60)
{
	struct rank rank;
	struct card card;
	int listener = fake_bind(), fd;

	card = fake_card(listener);
	cr_assert_eq(rank_listen(&rank, 0, "127.0.0.1", ""), 0);
	rank_open(&rank, 1, &card, sizeof(card));
	for (int wrong = 0; wrong < 11; wrong++) {
		struct hello hello = fake_hello(&rank, 1);

		switch (wrong) {
		case 0:
			memset(&hello, 'G', sizeof(hello));
			break;
		case 1:
			hello.version++;
			break;
		case 2:
			hello.stripe++;
			break;
		case 3:
			hello.from = 8;
			break;
		case 4:
			hello.from = -1;
			break;
		case 5:
			hello.to = 1;
			break;
		case 6:
			hello.channel = 1 << 20;
			break;
		case 7:
			hello.comm_id++;
			break;
		case 8:
			hello.key[15] ^= 1;
			break;
		case 9:
			hello.zero = 1;
			break;
		case 10:
			hello.channel = -1;
			break;
		}
		fd = fake_connect(&rank);
		fake_write(fd, &hello, sizeof(hello));
		fake_is_rejected(fd, &rank);
		cr_assert(!rank.link->ready && !rank.link->error, "case %d", wrong);
	}
	close(listener);
	rank_close(&rank);
}

Test(tcp, a_second_connection_for_a_link_is_rejected, .timeout = 60)
{
	struct staged staged;
	struct hello hello;
	int fd;

	staged_open(&staged);
	fd = fake_connect(&staged.rank);
	hello = fake_hello(&staged.rank, 1);
	fake_write(fd, &hello, sizeof(hello));
	fake_is_rejected(fd, &staged.rank);
	/* One connection at most waits for a link that is not open yet. */
	hello = fake_hello(&staged.rank, 2);
	int first = fake_connect(&staged.rank), second = fake_connect(&staged.rank);

	fake_write(first, &hello, sizeof(hello));
	rank_advance_long(&staged.rank);
	fake_write(second, &hello, sizeof(hello));
	fake_is_rejected(second, &staged.rank);
	close(first);
	staged_close(&staged);
}

Test(tcp, silent_strangers_are_bounded_and_delay_no_link, .timeout = 60)
{
	enum { STRANGERS = 3 * RD_DOOR_MOST };
	struct rank zero, one;
	int fds[STRANGERS], before;

	cr_assert_eq(rank_listen(&zero, 0, "127.0.0.1", ""), 0);
	cr_assert_eq(rank_listen(&one, 1, "127.0.0.1", ""), 0);
	before = contract_open_files();
	for (int i = 0; i < STRANGERS; i++) {
		fds[i] = fake_connect(&zero);
		/* Some send the beginning of a hello. */
		if (i % 2)
			fake_write(fds[i], "rodh", 4);
	}
	rank_open(&zero, 1, one.card, one.card_size);
	rank_open(&one, 0, zero.card, zero.card_size);
	AWAIT(zero.link->ready && one.link->ready, (rank_advance(&zero), rank_advance(&one)));
	rank_advance_long(&zero);
	cr_assert(contract_open_files() - before - STRANGERS < RD_DOOR_MOST + 16, "%d",
		contract_open_files() - before - STRANGERS);
	for (int i = 0; i < STRANGERS; i++)
		close(fds[i]);
	/* Strangers that close their connection free its descriptor. */
	AWAIT(contract_open_files() - before == 2, rank_advance(&zero));
	rank_close(&zero);
	rank_close(&one);
}

/* A hello of a comm that is not here waits for it, among a bounded number. A rank that had to give
   up its place connects again. */
Test(tcp, strangers_of_unknown_comms_are_bounded_and_keep_no_rank_out, .timeout = 60)
{
	enum { STRANGERS = 2 * RD_DOOR_MOST };
	struct rd_shared *shared;
	int fds[STRANGERS], before;
	struct pair pair;

	cr_assert_eq(rd_shared_make(&shared), 0);
	cr_assert_eq(rank_listen_shared(&pair.zero, 0, shared), 0);
	cr_assert_eq(rank_listen(&pair.one, 1, "127.0.0.1", ""), 0);
	pair.one.settings.init_timeout_ms = 60000;
	rank_open(&pair.one, 0, pair.zero.card, pair.zero.card_size);
	for (int i = 0; i < 100; i++)
		pair_advance(&pair);
	before = contract_open_files();
	for (int i = 0; i < STRANGERS; i++) {
		struct hello hello = fake_hello(&pair.zero, 1);

		hello.comm_id += 1 + (uint64_t)i;
		fds[i] = fake_connect(&pair.zero);
		fake_write(fds[i], &hello, sizeof(hello));
	}
	rank_advance_long(&pair.zero);
	cr_expect_leq(contract_open_files() - before, STRANGERS + RD_DOOR_MOST + 8);
	rank_open(&pair.zero, 1, pair.one.card, pair.one.card_size);
	cr_expect(!pair.zero.link->ready, "rank 1 has kept its place");
	AWAIT(pair.zero.link->ready && pair.one.link->ready, pair_advance(&pair));
	for (int i = 0; i < STRANGERS; i++)
		close(fds[i]);
	pair_close(&pair);
	rd_shared_release(shared);
}

Test(tcp, a_hello_may_come_in_pieces, .timeout = 60)
{
	struct rank rank;
	int listener = fake_bind(), fd;
	struct card card = fake_card(listener);
	struct hello hello, answer;

	cr_assert_eq(rank_listen(&rank, 0, "127.0.0.1", ""), 0);
	rank_open(&rank, 1, &card, sizeof(card));
	fd = fake_connect(&rank);
	hello = fake_hello(&rank, 1);
	for (size_t i = 0; i < sizeof(hello); i++) {
		cr_assert(!rank.link->ready);
		fake_write(fd, (char *)&hello + i, 1);
		for (int n = 0; n < 10; n++)
			rank_advance(&rank);
	}
	fake_read(fd, &rank, &answer, sizeof(answer));
	cr_assert(rank.link->ready);
	close(fd);
	close(listener);
	rank_close(&rank);
}

Test(tcp, an_invalid_card_is_an_error)
{
	struct rank rank;
	struct rd_link *link;
	struct card good, bad;
	int listener = fake_bind();

	good = fake_card(listener);
	cr_assert_eq(rank_listen(&rank, 1, "127.0.0.1", ""), 0);
	for (size_t size = 0; size <= RD_CARD_MAX; size++) {
		unsigned char bytes[RD_CARD_MAX] = { 0 };

		if (size == sizeof(good))
			continue;
		memcpy(bytes, &good, sizeof(good));
		cr_assert_eq(rd_transport_tcp.open(rank.endpoint, 0, 0, bytes, size, &link),
			RONDO_PROTOCOL);
	}
	for (int wrong = 0; wrong < 10; wrong++) {
		bad = good;
		if (wrong == 0)
			bad.magic++;
		if (wrong == 1)
			bad.version++;
		if (wrong == 2)
			bad.family = 5;
		if (wrong == 3)
			bad.port = 0;
		if (wrong == 4)
			bad.zero = 1;
		if (wrong == 5)
			bad.count = 0;
		if (wrong == 6)
			bad.count = 9;
		if (wrong == 7)
			bad.count = 2;
		if (wrong == 8)
			bad.shared = 0;
		if (wrong == 9)
			bad.shared = 2;
		cr_assert_eq(rd_transport_tcp.open(rank.endpoint, 0, 0, (unsigned char *)&bad,
				     sizeof(bad), &link),
			RONDO_PROTOCOL);
	}
	close(listener);
	rank_close(&rank);
}
