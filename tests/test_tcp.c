/*
 * What is tcp's own; what every transport must do is in contract.c. Two endpoints live in one
 * thread, or one endpoint and a `fake`: a plain socket that plays the peer, byte by byte if need
 * be.
 */
#include <arpa/inet.h>
#include <criterion/criterion.h>
#include <errno.h>
#include <fcntl.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <netinet/in.h>
#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#include "contract.h"
#include "error.h"
#include "party.h"
#include "transports/transports.h"

#define COMM 0x1122334455667788u
#define PIECE 65536

/* The wire format, spelled out once more: these are the bytes that tcp.c describes. */
struct card {
	uint32_t magic;
	uint16_t version;
	uint8_t count, shared, key[16];
	uint16_t family, port; /* of the first address */
	uint32_t zero;
	uint8_t address[16];
	struct {
		uint16_t family, port;
		uint32_t zero;
		uint8_t address[16];
	} more[7];
};

struct hello {
	uint32_t magic;
	uint16_t version, stripe;
	int32_t from, to, channel;
	uint32_t zero;
	uint64_t comm_id;
	uint8_t key[16];
};

struct header {
	uint32_t size, check;
	struct rd_tag tag;
};

/* Asserts that the condition comes true in time, while `step` is done again and again. */
#define AWAIT(condition, step) \
	do { \
		uint64_t deadline = now_ms() + PARTY_WAIT_MS; \
		while (!(condition)) { \
			cr_assert(now_ms() < deadline, "waited in vain for " #condition); \
			step; \
			sched_yield(); \
		} \
	} while (0)

/* ---- Ranks --------------------------------------------------------------------------------- */

struct rank {
	struct rd_settings settings;
	struct rd_local local;
	struct rd_endpoint *endpoint;
	struct rd_link *link;
	unsigned char card[RD_CARD_MAX];
	size_t card_size;
};

static int rank_listen(struct rank *rank, int number, const char *address, const char *interface)
{
	*rank = (struct rank){ 0 };
	rank->settings.size = 8;
	rank->settings.channels = 1;
	rank->settings.piece_size = PIECE;
	strcpy(rank->settings.address, address);
	strcpy(rank->settings.interface, interface);
	rank->local.rank = number;
	rank->local.size = 8;
	rank->local.settings = &rank->settings;
	rank->local.epoll_fd = epoll_create1(EPOLL_CLOEXEC);
	return rd_transport_tcp.listen(&rank->endpoint, &rank->local, rank->card, &rank->card_size);
}

static void rank_open(struct rank *rank, int peer, const void *card, size_t card_size)
{
	rank->local.comm_id = COMM;
	cr_assert_eq(rd_transport_tcp.open(rank->endpoint, peer, 0, card, card_size, &rank->link),
		0, "%s", rondo_last_error());
}

static void rank_advance(struct rank *rank)
{
	rd_transport_tcp.advance(rank->endpoint);
}

static void rank_close(struct rank *rank)
{
	if (rank->endpoint)
		rd_transport_tcp.close(rank->endpoint);
	rank->endpoint = NULL;
	close(rank->local.epoll_fd);
}

static struct card card_of(const struct rank *rank)
{
	struct card card;

	cr_assert_eq(rank->card_size, sizeof(card));
	memcpy(&card, rank->card, sizeof(card));
	return card;
}

struct pair {
	struct rank zero, one;
};

static void pair_advance(struct pair *pair)
{
	rank_advance(&pair->zero);
	rank_advance(&pair->one);
}

static void pair_open_for(struct pair *pair, const char *address, size_t piece_size)
{
	cr_assert_eq(rank_listen(&pair->zero, 0, address, ""), 0, "%s", rondo_last_error());
	cr_assert_eq(rank_listen(&pair->one, 1, address, ""), 0, "%s", rondo_last_error());
	pair->zero.settings.piece_size = pair->one.settings.piece_size = piece_size;
	rank_open(&pair->zero, 1, pair->one.card, pair->one.card_size);
	rank_open(&pair->one, 0, pair->zero.card, pair->zero.card_size);
	AWAIT(pair->zero.link->ready && pair->one.link->ready, pair_advance(pair));
}

static void pair_open(struct pair *pair, const char *address)
{
	pair_open_for(pair, address, PIECE);
}

static void pair_close(struct pair *pair)
{
	rank_close(&pair->zero);
	rank_close(&pair->one);
}

/* ---- Messages ------------------------------------------------------------------------------ */

/* Waits for message `key`, which may land in `into`, and checks it. Returns where it was shown. */
static const void *rank_take(
	struct rank *rank, unsigned key, size_t size, void *into, size_t into_size)
{
	struct rd_tag tag = tag_of(key);
	struct rd_message message = { 0 };

	AWAIT(rank->link->ops->recv(rank->link, into, into_size, &message), rank_advance(rank));
	cr_assert_eq(message.size, size, "message %u: %zu bytes, not %zu", key, message.size, size);
	cr_assert(memcmp(message.tag, &tag, sizeof(tag)) == 0, "tag of message %u", key);
	cr_assert(intact(message.data, size, key) == size, "payload of message %u", key);
	cr_assert(message.data == into || (uintptr_t)message.data % 8 == 0);
	rank->link->ops->release(rank->link);
	return message.data;
}

static bool rank_has_message(struct rank *rank)
{
	struct rd_message message;

	return rank->link->ops->recv(rank->link, NULL, 0, &message);
}

/* ---- Fakes --------------------------------------------------------------------------------- */

static int fake_socket(void)
{
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

	cr_assert(fd >= 0);
	return fd;
}

static struct sockaddr_in fake_address(int fd)
{
	struct sockaddr_in address;
	socklen_t size = sizeof(address);

	cr_assert_eq(getsockname(fd, (struct sockaddr *)&address, &size), 0);
	return address;
}

/* The other end of the fake's connection, which the endpoint holds. */
static int fake_peer(int fake)
{
	struct sockaddr_in address = fake_address(fake), other;

	for (int fd = 0; fd < 1024; fd++) {
		socklen_t size = sizeof(other);

		if (getpeername(fd, (struct sockaddr *)&other, &size) == 0 &&
			memcmp(&other, &address, sizeof(other)) == 0)
			return fd;
	}
	cr_assert(false, "nobody holds the other end");
	return -1;
}

/* A socket that is bound and does not listen (yet): its port is refused. */
static int fake_bind(void)
{
	struct sockaddr_in address = { .sin_family = AF_INET };
	int fd = fake_socket();

	address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
	cr_assert_eq(bind(fd, (struct sockaddr *)&address, sizeof(address)), 0);
	return fd;
}

static int fake_connect(const struct rank *to)
{
	struct sockaddr_in address = { .sin_family = AF_INET };
	struct card card = card_of(to);
	int fd = fake_socket();

	address.sin_port = htons(card.port);
	memcpy(&address.sin_addr, card.address, 4);
	cr_assert_eq(connect(fd, (struct sockaddr *)&address, sizeof(address)), 0);
	return fd;
}

/* A card that leads to the fake's port, with a key of sevens. */
static struct card fake_card(int fd)
{
	struct sockaddr_in address = fake_address(fd);
	struct card card = {
		.magic = 0x63646f72, .version = 2, .count = 1, .shared = 1, .family = 4
	};

	card.port = ntohs(address.sin_port);
	memcpy(card.address, &address.sin_addr, 4);
	memset(card.key, 7, sizeof(card.key));
	return card;
}

static struct hello fake_hello(const struct rank *to, int from)
{
	struct hello hello = { .magic = 0x68646f72, .version = 2, .from = from, .comm_id = COMM };

	hello.to = to->local.rank;
	memcpy(hello.key, card_of(to).key, sizeof(hello.key));
	return hello;
}

static void fake_write(int fd, const void *bytes, size_t size)
{
	cr_assert_eq(send(fd, bytes, size, MSG_NOSIGNAL), (ssize_t)size, "%m");
}

static void fake_read(int fd, struct rank *rank, void *bytes, size_t size)
{
	size_t have = 0;
	ssize_t got;

	while (have < size) {
		AWAIT((got = recv(fd, (char *)bytes + have, size - have, MSG_DONTWAIT)) >= 0,
			rank_advance(rank));
		cr_assert(got > 0, "the connection was closed");
		have += (size_t)got;
	}
}

/* The endpoint closes the fake's connection, with or without a reset, and tells it nothing. */
static void fake_is_turned_away(int fd, struct rank *rank)
{
	char byte;
	ssize_t got;

	AWAIT((got = recv(fd, &byte, 1, MSG_DONTWAIT)) >= 0 || errno == ECONNRESET,
		rank_advance(rank));
	cr_assert(got <= 0, "a stranger was answered");
	close(fd);
}

/* Message number `number` on its wire, header and payload, into bytes; returns its size there. */
static size_t fake_message(unsigned char *bytes, unsigned number, unsigned key, size_t size)
{
	struct header header = { (uint32_t)size, 0x6f640000u + (number & 0xffff), tag_of(key) };

	memcpy(bytes, &header, sizeof(header));
	fill(bytes + sizeof(header), size, key);
	return sizeof(header) + size;
}

/* Rank 0 is real, rank 1 is the fake, and they are connected. */
struct staged {
	struct rank rank;
	int listener, fd;
};

static void staged_open(struct staged *staged)
{
	struct hello hello, answer;
	struct card card;

	cr_assert_eq(rank_listen(&staged->rank, 0, "127.0.0.1", ""), 0, "%s", rondo_last_error());
	staged->listener = fake_bind();
	card = fake_card(staged->listener);
	rank_open(&staged->rank, 1, &card, sizeof(card));
	staged->fd = fake_connect(&staged->rank);
	hello = fake_hello(&staged->rank, 1);
	fake_write(staged->fd, &hello, sizeof(hello));
	fake_read(staged->fd, &staged->rank, &answer, sizeof(answer));
	cr_assert_eq(answer.from, 0);
	cr_assert_eq(answer.to, 1);
	cr_assert(memcmp(answer.key, card.key, sizeof(card.key)) == 0, "proves who answers");
	cr_assert(staged->rank.link->ready);
}

static void staged_close(struct staged *staged)
{
	rank_close(&staged->rank);
	close(staged->listener);
	close(staged->fd);
}

/* Asserts how the link fails, from advance() alone. */
static void staged_fails(struct staged *staged, int error, const char *story)
{
	struct rd_link *link = staged->rank.link;

	AWAIT(link->error, rank_advance(&staged->rank));
	cr_assert_eq(link->error, error, "%s", rondo_error_name(link->error));
	cr_assert_str_eq(link->story, story);
	cr_assert(!rank_has_message(&staged->rank));
	cr_assert_null(link->ops->reserve(link, 8));
}

/* The same, while the layer above waits for a message. */
static void staged_recv_fails(struct staged *staged, int error, const char *story)
{
	AWAIT(staged->rank.link->error, cr_assert(!rank_has_message(&staged->rank)));
	staged_fails(staged, error, story);
}

/* The fake vanishes with a reset. */
static void staged_reset(struct staged *staged)
{
	struct linger now = { .l_onoff = 1, .l_linger = 0 };

	setsockopt(staged->fd, SOL_SOCKET, SO_LINGER, &now, sizeof(now));
	close(staged->fd);
	staged->fd = -1;
}

/* ---- Which interface ----------------------------------------------------------------------- */

static bool listens_at(const struct rank *rank, const struct sockaddr *address)
{
	const struct sockaddr_in *in = (const void *)address;
	const struct sockaddr_in6 *in6 = (const void *)address;
	struct card card = card_of(rank);

	if (address->sa_family == AF_INET)
		return card.family == 4 && memcmp(card.address, &in->sin_addr, 4) == 0;
	return card.family == 6 && memcmp(card.address, &in6->sin6_addr, 16) == 0;
}

Test(tcp_interface, is_the_one_that_leads_to_the_master)
{
	struct ifaddrs *all;
	int tried = 0;

	cr_assert_eq(getifaddrs(&all), 0);
	for (struct ifaddrs *one = all; one; one = one->ifa_next) {
		struct rank rank;
		char text[INET_ADDRSTRLEN];

		if (!one->ifa_addr || one->ifa_addr->sa_family != AF_INET ||
			!(one->ifa_flags & IFF_UP))
			continue;
		inet_ntop(AF_INET, &((struct sockaddr_in *)one->ifa_addr)->sin_addr, text,
			sizeof(text));
		cr_assert_eq(rank_listen(&rank, 0, text, ""), 0, "%s", rondo_last_error());
		cr_assert(listens_at(&rank, one->ifa_addr), "MASTER_ADDR=%s", text);
		rank_close(&rank);
		tried++;
	}
	freeifaddrs(all);
	cr_assert(tried > 0);
}

Test(tcp_interface, may_be_named)
{
	struct ifaddrs *all;

	cr_assert_eq(getifaddrs(&all), 0);
	for (struct ifaddrs *one = all; one; one = one->ifa_next) {
		struct rank rank;

		if (!one->ifa_addr || one->ifa_addr->sa_family != AF_INET)
			continue;
		/* The master's address leads elsewhere, unless this is the loopback. */
		cr_assert_eq(rank_listen(&rank, 0, "127.0.0.1", one->ifa_name), 0, "%s",
			rondo_last_error());
		cr_assert(listens_at(&rank, one->ifa_addr), "RONDO_INTERFACE=%s", one->ifa_name);
		rank_close(&rank);
	}
	freeifaddrs(all);
}

Test(tcp_interface, named_gives_an_address_of_the_masters_family)
{
	struct sockaddr_in6 loopback = { .sin6_family = AF_INET6,
		.sin6_addr = IN6ADDR_LOOPBACK_INIT };
	struct rank rank;

	if (rank_listen(&rank, 0, "::1", "") != 0) {
		rank_close(&rank);
		cr_skip_test("this machine has no IPv6");
	}
	rank_close(&rank);
	cr_assert_eq(rank_listen(&rank, 0, "::1", "lo"), 0, "%s", rondo_last_error());
	cr_assert(listens_at(&rank, (struct sockaddr *)&loopback));
	rank_close(&rank);
}

Test(tcp_interface, unknown_is_an_error_that_names_those_there_are)
{
	struct rank rank;

	cr_assert_eq(rank_listen(&rank, 0, "127.0.0.1", "nosuch0"), RONDO_SETTING);
	cr_assert(strstr(rondo_last_error(), "RONDO_INTERFACE=nosuch0: no such interface"), "%s",
		rondo_last_error());
	cr_assert(strstr(rondo_last_error(), "there are: lo"), "%s", rondo_last_error());
	rank_close(&rank);
}

Test(tcp_interface, needs_an_address_that_leads_somewhere)
{
	struct rank rank;

	cr_assert_eq(rank_listen(&rank, 0, "no..name", ""), RONDO_UNREACHABLE);
	cr_assert(strstr(rondo_last_error(), "MASTER_ADDR=no..name"), "%s", rondo_last_error());
	rank_close(&rank);
	/* A routing table may have a way to any address, but not to the broadcast one for TCP's
	 * kin. */
	cr_assert_eq(rank_listen(&rank, 0, "255.255.255.255", ""), RONDO_UNREACHABLE);
	cr_assert(strstr(rondo_last_error(), "no interface leads there"), "%s", rondo_last_error());
	rank_close(&rank);
}

Test(tcp_interface, alone_is_listened_on)
{
	struct rank rank;
	struct sockaddr_in other = { .sin_family = AF_INET };
	int fd = fake_socket();

	cr_assert_eq(rank_listen(&rank, 0, "127.0.0.1", ""), 0);
	other.sin_port = htons(card_of(&rank).port);
	other.sin_addr.s_addr = htonl(INADDR_LOOPBACK + 1);
	cr_assert_eq(connect(fd, (struct sockaddr *)&other, sizeof(other)), -1);
	cr_assert_eq(errno, ECONNREFUSED);
	close(fd);
	rank_close(&rank);
}

/* ---- Meeting ------------------------------------------------------------------------------- */

static void try_address(const char *address)
{
	struct pair pair;

	pair_open(&pair, address);
	cr_assert(offer(pair.zero.link, 1, 1000));
	cr_assert(offer(pair.one.link, 2, PIECE));
	rank_take(&pair.one, 1, 1000, NULL, 0);
	rank_take(&pair.zero, 2, PIECE, NULL, 0);
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
	cr_assert(!pair.one.link->ready && !pair.one.link->error, "%s", pair.one.link->story);
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
	for (int i = 0; i < 1000; i++)
		rank_advance(&rank);
	close(fd);
	for (int i = 0; i < 1000; i++)
		rank_advance(&rank);
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
	cr_assert(strstr(rank.link->story, "cannot be reached at 127.0.0.1:"), "%s",
		rank.link->story);
	cr_assert(strstr(rank.link->story, "Connection refused"), "%s", rank.link->story);
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

/* Rank 1 meets rank 0, of whose two addresses the first is the fake's. */
static void meet_by_second(int first)
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
	cr_assert(offer(pair.one.link, 1, 1000));
	rank_take(&pair.zero, 1, 1000, NULL, 0);
	pair_close(&pair);
	close(first);
}

Test(tcp, an_address_that_is_refused_gives_way_to_the_next, .timeout = 60)
{
	meet_by_second(fake_bind());
}

Test(tcp, an_address_where_someone_else_hangs_up_gives_way_to_the_next, .timeout = 60)
{
	int fd = fake_bind();

	cr_assert_eq(listen(fd, 8), 0);
	cr_assert_eq(fcntl(fd, F_SETFL, O_NONBLOCK), 0);
	meet_by_second(fd);
}

Test(tcp, of_several_addresses_the_last_says_why_none_is_reached, .timeout = 60)
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
	cr_assert_str_eq(rank.link->story, last);
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

Test(tcp, an_address_without_a_way_is_unreachable, .timeout = 60)
{
	struct rank rank;
	int fd = fake_bind();
	struct card card = fake_card(fd);

	memset(card.address, 0xff, 4);
	cr_assert_eq(rank_listen(&rank, 1, "127.0.0.1", ""), 0);
	rank_open(&rank, 0, &card, sizeof(card));
	AWAIT(rank.link->error, rank_advance(&rank));
	cr_assert_eq(rank.link->error, RONDO_UNREACHABLE);
	cr_assert(strstr(rank.link->story, "cannot be reached at 255.255.255.255:"), "%s",
		rank.link->story);
	close(fd);
	rank_close(&rank);
}

Test(tcp, a_listener_that_says_nothing_blocks_nobody, .timeout = 60)
{
	struct rank rank;
	int fd = fake_bind();
	struct card card = fake_card(fd);

	cr_assert_eq(listen(fd, 1), 0);
	cr_assert_eq(rank_listen(&rank, 1, "127.0.0.1", ""), 0);
	rank_open(&rank, 0, &card, sizeof(card));
	for (int i = 0; i < 1000; i++)
		rank_advance(&rank);
	cr_assert(!rank.link->ready && !rank.link->error, "%s", rank.link->story);
	cr_assert(!rank_has_message(&rank));
	cr_assert_null(rank.link->ops->reserve(rank.link, 1));
	close(fd);
	rank_close(&rank);
}

/* Rank 1 connects to a fake, which reads its hello and gives this answer. */
static void try_answer(const struct hello *patch, size_t size, int error, const char *story)
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
	cr_assert(memcmp(hello.key, card.key, sizeof(card.key)) == 0);
	cr_assert_eq(hello.comm_id, COMM);
	fake_write(fd, patch, size);
	if (size < sizeof(*patch))
		close(fd);
	AWAIT(rank.link->error || rank.link->ready, rank_advance(&rank));
	cr_assert_eq(rank.link->error, error, "%s", rank.link->story);
	cr_assert(strstr(rank.link->story, story), "%s", rank.link->story);
	if (size == sizeof(*patch))
		close(fd);
	close(listener);
	rank_close(&rank);
}

Test(tcp, an_answer_proves_itself, .timeout = 60)
{
	struct hello answer = { .magic = 0x68646f72, .version = 2, .to = 1, .comm_id = COMM };

	/* The right one would carry the key of rank 1's card, which this fake was never told. */
	try_answer(&answer, sizeof(answer), RONDO_PROTOCOL, "someone else answers at 127.0.0.1:");
	try_answer(&answer, 0, RONDO_UNREACHABLE, "turned the connection away");
	try_answer(&answer, 20, RONDO_UNREACHABLE, "turned the connection away");
}

Test(tcp, another_comm_does_not_get_in, .timeout = 60)
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

Test(tcp, strangers_are_turned_away, .timeout = 60)
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
		fake_is_turned_away(fd, &rank);
		cr_assert(!rank.link->ready && !rank.link->error, "case %d", wrong);
	}
	close(listener);
	rank_close(&rank);
}

Test(tcp, a_second_connection_for_a_link_is_turned_away, .timeout = 60)
{
	struct staged staged;
	struct hello hello;
	int fd;

	staged_open(&staged);
	fd = fake_connect(&staged.rank);
	hello = fake_hello(&staged.rank, 1);
	fake_write(fd, &hello, sizeof(hello));
	fake_is_turned_away(fd, &staged.rank);
	/* Nor may it wait twice for a link that is still to be opened. */
	hello = fake_hello(&staged.rank, 2);
	int first = fake_connect(&staged.rank), second = fake_connect(&staged.rank);

	fake_write(first, &hello, sizeof(hello));
	for (int i = 0; i < 1000; i++)
		rank_advance(&staged.rank);
	fake_write(second, &hello, sizeof(hello));
	fake_is_turned_away(second, &staged.rank);
	close(first);
	staged_close(&staged);
}

Test(tcp, silent_strangers_are_few_and_in_nobodys_way, .timeout = 60)
{
	enum { STRANGERS = 200 };
	struct rank zero, one;
	int fds[STRANGERS], before;

	cr_assert_eq(rank_listen(&zero, 0, "127.0.0.1", ""), 0);
	cr_assert_eq(rank_listen(&one, 1, "127.0.0.1", ""), 0);
	before = contract_open_files();
	for (int i = 0; i < STRANGERS; i++) {
		fds[i] = fake_connect(&zero);
		/* Some say half a hello. */
		if (i % 2)
			fake_write(fds[i], "rodh", 4);
	}
	rank_open(&zero, 1, one.card, one.card_size);
	rank_open(&one, 0, zero.card, zero.card_size);
	AWAIT(zero.link->ready && one.link->ready, (rank_advance(&zero), rank_advance(&one)));
	for (int i = 0; i < 1000; i++)
		rank_advance(&zero);
	cr_assert(contract_open_files() - before - STRANGERS < 80, "%d",
		contract_open_files() - before - STRANGERS);
	for (int i = 0; i < STRANGERS; i++)
		close(fds[i]);
	/* Those that leave make room. */
	AWAIT(contract_open_files() - before == 2, rank_advance(&zero));
	rank_close(&zero);
	rank_close(&one);
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

Test(tcp, a_card_that_makes_no_sense_is_an_error)
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
			bad.version = 3;
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

/* ---- Ends ---------------------------------------------------------------------------------- */

Test(tcp, a_close_is_noticed_on_an_idle_link, .timeout = 60)
{
	struct staged staged;

	staged_open(&staged);
	close(staged.fd);
	staged_fails(&staged, RONDO_BROKEN, "closed its connection");
	staged_close(&staged);
}

Test(tcp, a_reset_is_noticed_on_an_idle_link, .timeout = 60)
{
	struct staged staged;

	staged_open(&staged);
	staged_reset(&staged);
	staged_fails(&staged, RONDO_BROKEN, "reset the connection");
	staged_close(&staged);
}

Test(tcp, a_close_amid_a_message_says_so, .timeout = 60)
{
	unsigned char bytes[2000], into[1000];
	struct rd_message message;
	struct staged staged;
	size_t size = fake_message(bytes, 0, 1, 1000);
	const size_t cuts[] = { 1, 31, 32, 33, size - 1 };

	for (int landing = 0; landing < 2; landing++)
		for (size_t i = 0; i < sizeof(cuts) / sizeof(cuts[0]); i++) {
			staged_open(&staged);
			fake_write(staged.fd, bytes, cuts[i]);
			close(staged.fd);
			AWAIT(staged.rank.link->error,
				cr_assert(!staged.rank.link->ops->recv(
					staged.rank.link, landing ? into : NULL, 1000, &message)));
			staged_recv_fails(&staged, RONDO_BROKEN,
				"closed its connection in the middle of a message");
			staged_close(&staged);
		}
}

Test(tcp, a_reset_amid_a_large_message_says_so, .timeout = 60)
{
	unsigned char *bytes = malloc(PIECE + 32);
	struct staged staged;

	staged_open(&staged);
	fake_message(bytes, 0, 1, PIECE);
	fake_write(staged.fd, bytes, 10000);
	cr_assert(!rank_has_message(&staged.rank));
	staged_reset(&staged);
	staged_recv_fails(&staged, RONDO_BROKEN, "reset the connection");
	staged_close(&staged);
	free(bytes);
}

Test(tcp, what_came_before_the_end_is_received_first, .timeout = 60)
{
	unsigned char bytes[2000];
	struct staged staged;
	size_t size;

	staged_open(&staged);
	size = fake_message(bytes, 0, 1, 100);
	size += fake_message(bytes + size, 1, 2, 0);
	size += fake_message(bytes + size, 2, 3, 333);
	fake_write(staged.fd, bytes, size);
	close(staged.fd);
	for (int i = 0; i < 1000; i++)
		rank_advance(&staged.rank);
	cr_assert_eq(staged.rank.link->error, 0);
	rank_take(&staged.rank, 1, 100, NULL, 0);
	for (int i = 0; i < 1000; i++)
		rank_advance(&staged.rank);
	cr_assert_eq(staged.rank.link->error, 0);
	rank_take(&staged.rank, 2, 0, NULL, 0);
	/* Nor does one that is being looked at go away. */
	cr_assert(rank_has_message(&staged.rank));
	for (int i = 0; i < 1000; i++)
		rank_advance(&staged.rank);
	cr_assert_eq(staged.rank.link->error, 0);
	rank_take(&staged.rank, 3, 333, NULL, 0);
	staged_fails(&staged, RONDO_BROKEN, "closed its connection");
	staged_close(&staged);
}

/* The fake leaves a message and goes, while it is being sent more than it reads. */
static void staged_go_deaf(struct staged *staged, unsigned char *bytes)
{
	struct rd_link *link = staged->rank.link;
	struct rd_tag tag = { 0 };

	fake_write(staged->fd, bytes, fake_message(bytes, 0, 1, 100));
	while (link->ops->send(link, &tag, bytes, PIECE))
		;
	staged_reset(staged);
	AWAIT(link->sent == link->posted, rank_advance(&staged->rank));
	cr_assert_eq(link->error, 0, "%s", link->story);
}

Test(tcp, what_a_dead_peer_left_can_be_had, .timeout = 60)
{
	unsigned char *bytes = malloc(PIECE);
	struct staged staged;

	staged_open(&staged);
	staged_go_deaf(&staged, bytes);
	rank_take(&staged.rank, 1, 100, NULL, 0);
	AWAIT(staged.rank.link->error, rank_advance(&staged.rank));
	cr_assert_eq(staged.rank.link->error, RONDO_BROKEN);
	staged_close(&staged);
	free(bytes);
}

Test(tcp, what_a_dead_peer_left_does_not_fool_a_sender, .timeout = 60)
{
	unsigned char *bytes = malloc(PIECE);
	struct staged staged;

	for (int posts = 0; posts < 2; posts++) {
		struct rd_link *link;

		staged_open(&staged);
		staged_go_deaf(&staged, bytes);
		link = staged.rank.link;
		if (posts)
			cr_assert(!link->ops->send(link, &(struct rd_tag){ 0 }, bytes, 1));
		else
			cr_assert_null(link->ops->reserve(link, 1));
		cr_assert_eq(link->error, RONDO_BROKEN);
		cr_assert_str_eq(link->story, "reset the connection");
		staged_close(&staged);
	}
	free(bytes);
}

Test(tcp, a_sender_alone_learns_of_a_dead_peer, .timeout = 60)
{
	struct staged staged;
	struct rd_link *link;
	unsigned char bytes[PIECE];
	struct rd_tag tag = { 0 };

	staged_open(&staged);
	link = staged.rank.link;
	while (link->ops->send(link, &tag, bytes, sizeof(bytes)))
		;
	staged_reset(&staged);
	AWAIT(link->error, rank_advance(&staged.rank));
	cr_assert_eq(link->error, RONDO_BROKEN);
	cr_assert_str_eq(link->story, "reset the connection");
	cr_assert(!link->ops->send(link, &tag, bytes, 1));
	staged_close(&staged);
}

Test(tcp, bytes_that_are_no_message_are_an_error, .timeout = 60)
{
	unsigned char bytes[2000], into[8192];
	struct rd_message message;
	struct staged staged;

	for (int wrong = 0; wrong < 6; wrong++) {
		size_t size = fake_message(bytes, wrong == 0, 1, 100);

		if (wrong == 1)
			bytes[7] ^= 1;
		if (wrong == 2)
			memcpy(bytes, &(uint32_t){ PIECE + 1 }, 4);
		if (wrong == 3)
			memset(bytes, 0xff, size);
		if (wrong == 4)
			memset(bytes, 0, size);
		if (wrong == 5)
			memcpy(bytes, "GET / HTTP/1.1\r\n", 16);
		for (int expected = 0; expected < 2; expected++) {
			staged_open(&staged);
			fake_write(staged.fd, bytes, size);
			AWAIT(staged.rank.link->error,
				cr_assert(!staged.rank.link->ops->recv(staged.rank.link,
					expected ? into : NULL, sizeof(into), &message)));
			staged_fails(&staged, RONDO_PROTOCOL, "sent bytes that are no message");
			staged_close(&staged);
		}
	}
}

/* ---- Moving bytes -------------------------------------------------------------------------- */

Test(tcp, a_wanted_message_lands_in_place, .timeout = 60)
{
	static const size_t sizes[] = { 0, 1, 100, 4095, 4096, 4097, 8192, 50000, PIECE };
	unsigned char *into = malloc(PIECE);
	struct pair pair;

	pair_open(&pair, "127.0.0.1");
	for (unsigned key = 0; key < 90; key++) {
		size_t size = sizes[key % 9];
		struct rd_message message;

		/* Before it comes, or after. */
		if (key & 1)
			cr_assert(!pair.one.link->ops->recv(pair.one.link, into, size, &message));
		cr_assert(offer(pair.zero.link, key, size));
		cr_assert_eq(rank_take(&pair.one, key, size, into, size), into, "%zu bytes", size);
	}
	/* One that has company, of another size than wanted, is shown where it lies. */
	for (unsigned key = 0; key < 90; key++) {
		cr_assert(offer(pair.zero.link, key, 8));
		cr_assert(offer(pair.zero.link, key + 1, 777));
		cr_assert(offer(pair.zero.link, key + 2, 10000));
		cr_assert_neq(rank_take(&pair.one, key, 8, into, sizes[key % 9]), into);
		cr_assert_neq(rank_take(&pair.one, key + 1, 777, into, sizes[key % 9]), into);
		cr_assert_eq(rank_take(&pair.one, key + 2, 10000, into, 10000), into);
	}
	pair_close(&pair);
	free(into);
}

/* A source of numbers that is the same in each run. */
static unsigned draw(unsigned *state, unsigned bound)
{
	*state = *state * 1103515245 + 12345;
	return (*state >> 8) % bound;
}

static size_t draw_size(unsigned *state)
{
	switch (draw(state, 4)) {
	case 0:
		return draw(state, 20);
	case 1:
		return draw(state, 200) * 8;
	case 2:
		return draw(state, PIECE + 1);
	default:
		return 4096 - 40 + draw(state, 80);
	}
}

/* Some thousand messages in one stream, cut anywhere, received with and without a place. */
Test(tcp, a_stream_may_be_cut_anywhere, .timeout = 120)
{
	enum { MESSAGES = 1500 };
	unsigned state = 1, choice = 99;
	unsigned char *stream = malloc((size_t)MESSAGES * (PIECE + 32)), *into = malloc(PIECE);
	size_t *sizes = malloc(MESSAGES * sizeof(*sizes)), total = 0, sent = 0;
	struct staged staged;

	for (unsigned i = 0; i < MESSAGES; i++) {
		sizes[i] = draw_size(&state);
		total += fake_message(stream + total, i, i, sizes[i]);
	}
	staged_open(&staged);
	for (unsigned i = 0; i < MESSAGES; i++) {
		struct rd_link *link = staged.rank.link;
		unsigned way = draw(&choice, 4);
		size_t wanted = way == 1 ? draw_size(&choice) : sizes[i];
		unsigned char *place = way == 0 ? NULL : into;
		struct rd_message message;

		while (!link->ops->recv(link, place, wanted, &message)) {
			size_t part = draw(&choice, 3) ? draw(&choice, 70) : draw(&choice, 9000);
			ssize_t got;

			cr_assert_eq(link->error, 0, "%s", link->story);
			if (part > total - sent)
				part = total - sent;
			got = send(staged.fd, stream + sent, part, MSG_DONTWAIT);
			sent += got > 0 ? (size_t)got : 0;
		}
		rank_take(&staged.rank, i, sizes[i], place, wanted);
		cr_assert_eq(message.data == into, place && wanted == sizes[i]);
	}
	cr_assert(!rank_has_message(&staged.rank));
	staged_close(&staged);
	free(stream);
	free(into);
	free(sizes);
}

/* Posts and commits by turns into a small socket, whose reader takes odd bites. */
Test(tcp, a_slow_reader_gets_every_byte, .timeout = 120)
{
	enum { MESSAGES = 300 };
	unsigned char *memory = malloc(MESSAGES * 7000), bite[4096], *expected = malloc(8000);
	unsigned posted = 0, taken = 0, state = 5;
	size_t have = 0, due = 0;
	struct staged staged;
	struct rd_link *link;
	int small = 4096;
	bool was_full = false;

	staged_open(&staged);
	link = staged.rank.link;
	setsockopt(fake_peer(staged.fd), SOL_SOCKET, SO_SNDBUF, &small, sizeof(small));
	while (taken < MESSAGES) {
		ssize_t got;

		while (posted < MESSAGES) {
			size_t size = posted * 23 % 7000;
			struct rd_tag tag = tag_of(posted);

			fill(memory + posted * 7000, size, posted);
			if (posted % 3 == 0 ? !offer(link, posted, size)
					    : !link->ops->send(
						      link, &tag, memory + posted * 7000, size)) {
				was_full = true;
				break;
			}
			posted++;
		}
		rank_advance(&staged.rank);
		got = recv(staged.fd, bite, 1 + draw(&state, sizeof(bite)), MSG_DONTWAIT);
		for (ssize_t i = 0; i < got; i++) {
			if (due == 0)
				due = fake_message(expected, taken, taken, taken * 23 % 7000);
			cr_assert_eq(bite[i], expected[have], "message %u byte %zu", taken, have);
			if (++have == due)
				taken++, have = due = 0;
		}
		cr_assert(link->sent <= link->posted);
	}
	cr_assert(was_full);
	cr_assert_eq(link->posted, MESSAGES - MESSAGES / 3);
	cr_assert_eq(link->sent, link->posted);
	staged_close(&staged);
	free(memory);
	free(expected);
}

static void *read_slowly(void *argument)
{
	struct rank *rank = argument;
	struct rd_message message;
	uintptr_t taken = 0;
	uint64_t deadline = now_ms() + PARTY_WAIT_MS;

	while (now_ms() < deadline && !rank->link->error) {
		rank_advance(rank);
		if (!rank->link->ops->recv(rank->link, NULL, 0, &message))
			continue;
		if (intact(message.data, message.size, taken) != message.size)
			break;
		taken++;
		rank->link->ops->release(rank->link);
	}
	return (void *)taken;
}

Test(tcp, closing_waits_for_a_reader, .timeout = 60)
{
	struct pair pair;
	pthread_t thread;
	void *taken;
	unsigned sent = 0;

	pair_open(&pair, "127.0.0.1");
	for (int full = 0; full < 100; full++) {
		while (offer(pair.zero.link, sent, PIECE))
			sent++;
		rank_advance(&pair.zero);
	}
	/* What the peer never read must not spoil it. */
	cr_assert(offer(pair.one.link, 0, 100));
	cr_assert_eq(pthread_create(&thread, NULL, read_slowly, &pair.one), 0);
	rank_close(&pair.zero);
	pthread_join(thread, &taken);
	cr_assert_eq((uintptr_t)taken, sent, "%lu of %u", (unsigned long)(uintptr_t)taken, sent);
	cr_assert_eq(pair.one.link->error, RONDO_BROKEN);
	cr_assert_str_eq(pair.one.link->story, "closed its connection");
	rank_close(&pair.one);
}

Test(tcp, closing_does_not_wait_long_for_one_who_does_not_read, .timeout = 60)
{
	struct pair pair;
	uint64_t start;

	pair_open(&pair, "127.0.0.1");
	for (int full = 0; full < 100; full++) {
		while (offer(pair.zero.link, 1, PIECE))
			;
		rank_advance(&pair.zero);
	}
	start = now_ms();
	rank_close(&pair.zero);
	cr_assert(now_ms() - start < 10000);
	rank_close(&pair.one);
}

/* However much a caller says that it expects, and although the socket holds more. */
Test(tcp, no_more_is_read_than_there_is_room_for, .timeout = 60)
{
	enum { LEAST = 4096, MESSAGES = 8 };
	struct rd_message message;
	struct pair pair;

	pair_open_for(&pair, "127.0.0.1", LEAST);
	for (unsigned key = 0; key < MESSAGES; key++)
		cr_assert(offer(pair.one.link, key, LEAST));
	for (unsigned key = 0; key < MESSAGES; key++) {
		AWAIT(pair.zero.link->ops->recv(pair.zero.link, NULL, 64 * LEAST, &message),
			rank_advance(&pair.one));
		cr_assert_eq(message.size, LEAST);
		cr_assert(intact(message.data, LEAST, key) == LEAST);
		pair.zero.link->ops->release(pair.zero.link);
	}
	pair_close(&pair);
}

/* ---- Sleeping, and what is left ------------------------------------------------------------ */

/* As a driver sleeps: until woken, or this is a failure. */
static void sleep_until_woken(struct rank *rank)
{
	struct epoll_event event;

	cr_assert_eq(epoll_wait(rank->local.epoll_fd, &event, 1, PARTY_WAIT_MS), 1, "nobody rang");
	rd_transport_tcp.disarm(rank->endpoint);
}

static void *send_one(void *argument)
{
	struct rank *rank = argument;

	offer(rank->link, 5, 100);
	return NULL;
}

static void *close_rank(void *argument)
{
	rank_close(argument);
	return NULL;
}

/* Until the kernel knows of the fake's end. */
static void staged_hang_up(struct staged *staged)
{
	struct pollfd end = { .fd = fake_peer(staged->fd), .events = POLLRDHUP };

	close(staged->fd);
	cr_assert_eq(poll(&end, 1, PARTY_WAIT_MS), 1);
}

Test(tcp, arming_has_heard_all_news, .timeout = 60)
{
	struct staged staged;

	staged_open(&staged);
	staged_hang_up(&staged);
	rd_transport_tcp.arm(staged.rank.endpoint);
	cr_assert_eq(staged.rank.link->error, RONDO_BROKEN);
	staged_close(&staged);
}

/* More than the sockets hold. */
#define LARGE (16 << 20)

/* The driver hears only of what comes after it was armed: what lies there is taken in before. */
Test(tcp, arming_takes_in_what_lies_there, .timeout = 60)
{
	unsigned char *memory = malloc(LARGE);
	struct rd_tag tag = tag_of(1);
	struct pair pair;

	pair_open_for(&pair, "127.0.0.1", LARGE);
	fill(memory, LARGE, 1);
	cr_assert(pair.one.link->ops->send(pair.one.link, &tag, memory, LARGE));
	AWAIT(pair.one.link->sent == 1,
		(rd_transport_tcp.arm(pair.zero.endpoint),
			rd_transport_tcp.disarm(pair.zero.endpoint), rank_advance(&pair.one)));
	rank_take(&pair.zero, 1, LARGE, NULL, 0);
	pair_close(&pair);
	free(memory);
}

/* Descriptors that wake the driver. */
static int count_watched(const struct rank *rank)
{
	char path[64], line[256];
	int watched = 0;
	FILE *file;

	snprintf(path, sizeof(path), "/proc/self/fdinfo/%d", rank->local.epoll_fd);
	file = fopen(path, "r");
	cr_assert_not_null(file);
	while (fgets(line, sizeof(line), file))
		watched += strncmp(line, "tfd:", 4) == 0;
	fclose(file);
	return watched;
}

/* So long that links are no more watched. */
static void stay_awake(struct rank *rank)
{
	for (int i = 0; i < 2000; i++)
		rank_advance(rank);
}

Test(tcp, links_of_a_rank_that_does_not_sleep_are_watched_by_nobody, .timeout = 60)
{
	struct pair pair;
	int watched;

	pair_open(&pair, "127.0.0.1");
	rd_transport_tcp.arm(pair.zero.endpoint);
	watched = count_watched(&pair.zero);
	rd_transport_tcp.disarm(pair.zero.endpoint);
	stay_awake(&pair.zero);
	cr_assert_eq(count_watched(&pair.zero), watched - 1);
	rd_transport_tcp.arm(pair.zero.endpoint);
	cr_assert_eq(count_watched(&pair.zero), watched);
	rd_transport_tcp.disarm(pair.zero.endpoint);
	pair_close(&pair);
}

Test(tcp, a_rank_that_was_long_awake_is_woken_too, .timeout = 60)
{
	struct epoll_event event;
	struct staged staged;

	staged_open(&staged);
	stay_awake(&staged.rank);
	rd_transport_tcp.arm(staged.rank.endpoint);
	/* The one ring for nothing. */
	while (epoll_wait(staged.rank.local.epoll_fd, &event, 1, 0) > 0)
		;
	staged_hang_up(&staged);
	sleep_until_woken(&staged.rank);
	rank_advance(&staged.rank);
	cr_assert_eq(staged.rank.link->error, RONDO_BROKEN);
	staged_close(&staged);
}

Test(tcp, waking_asks_for_news, .timeout = 60)
{
	struct staged staged;

	staged_open(&staged);
	rd_transport_tcp.arm(staged.rank.endpoint);
	staged_hang_up(&staged);
	sleep_until_woken(&staged.rank);
	rank_advance(&staged.rank);
	cr_assert_eq(staged.rank.link->error, RONDO_BROKEN);
	staged_close(&staged);
}

Test(tcp, a_sleeper_is_woken_by_a_message_and_by_the_end, .timeout = 60)
{
	struct pair pair;
	pthread_t thread;
	struct rd_message message;
	bool came = false;

	pair_open(&pair, "127.0.0.1");
	cr_assert_eq(pthread_create(&thread, NULL, send_one, &pair.zero), 0);
	while (!came) {
		rd_transport_tcp.arm(pair.one.endpoint);
		came = pair.one.link->ops->recv(pair.one.link, NULL, 0, &message);
		if (!came)
			sleep_until_woken(&pair.one);
	}
	pthread_join(thread, NULL);
	pair.one.link->ops->release(pair.one.link);
	cr_assert_eq(pthread_create(&thread, NULL, close_rank, &pair.zero), 0);
	/* Asks for nothing: news comes by arm() and advance() alone. */
	for (;;) {
		rd_transport_tcp.arm(pair.one.endpoint);
		if (pair.one.link->error)
			break;
		sleep_until_woken(&pair.one);
		rank_advance(&pair.one);
	}
	pthread_join(thread, NULL);
	rank_close(&pair.one);
}

Test(tcp, leaves_nothing_to_children_and_nothing_behind, .timeout = 60)
{
	int before = contract_open_files();
	struct pair pair;
	struct staged staged;

	pair_open(&pair, "127.0.0.1");
	for (int fd = 3; fd < 256; fd++) {
		struct sockaddr_storage address;
		socklen_t size = sizeof(address);

		if (getsockname(fd, (struct sockaddr *)&address, &size) == 0 &&
			address.ss_family == AF_INET)
			cr_assert(fcntl(fd, F_GETFD) & FD_CLOEXEC, "descriptor %d", fd);
	}
	pair_close(&pair);
	staged_open(&staged);
	close(fake_connect(&staged.rank));
	staged_close(&staged);
	cr_assert_eq(contract_open_files(), before);
}

/* ---- Two threads --------------------------------------------------------------------------- */

struct runner {
	struct rank *rank;
	bool first, fine;
};

/* Plays a ball to and fro, with a pile of large messages under way the same time. */
static void *run(void *argument)
{
	struct runner *runner = argument;
	struct rd_link *link = runner->rank->link;
	unsigned char *memory = malloc(PIECE), *into = malloc(PIECE);
	struct rd_tag tag = { 0 };
	struct rd_message message;
	unsigned sent = 0, taken = 0;

	fill(memory, PIECE, 3);
	while ((sent < 500 || taken < 500 || link->sent < link->posted) && !link->error) {
		if (sent < 500 && link->ops->send(link, &tag, memory, PIECE - sent % 2))
			sent++;
		if (link->ops->recv(link, taken % 3 ? into : NULL, PIECE - taken % 2, &message)) {
			if (message.size != PIECE - taken % 2 ||
				intact(message.data, message.size, 3) != message.size)
				break;
			taken++;
			link->ops->release(link);
		}
		rank_advance(runner->rank);
	}
	runner->fine = sent == 500 && taken == 500;
	free(memory);
	free(into);
	return NULL;
}

Test(tcp, two_threads_send_both_ways, .timeout = 120)
{
	struct pair pair;
	struct runner zero = { &pair.zero, true, false }, one = { &pair.one, false, false };
	pthread_t thread;

	pair_open(&pair, "127.0.0.1");
	cr_assert_eq(pthread_create(&thread, NULL, run, &one), 0);
	run(&zero);
	pthread_join(thread, NULL);
	cr_assert(zero.fine && one.fine, "%s | %s", pair.zero.link->story, pair.one.link->story);
	pair_close(&pair);
}
