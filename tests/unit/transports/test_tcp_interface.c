/* The interfaces on which tcp listens. */
#include <criterion/criterion.h>
#include <arpa/inet.h>
#include <errno.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <string.h>
#include <unistd.h>

#include "tcp/fakes.h"

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
		/* MASTER_ADDR leads to another interface, unless this is the loopback. */
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
	/* A routing table may lead to any address, but connect() refuses the broadcast one. */
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
