#include "bootstrap/own_address.h"

#include <ifaddrs.h>
#include <net/if.h>
#include <netdb.h>
#include <netinet/in.h>
#include <stdbool.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/descriptor.h"
#include "base/environment.h"
#include "base/error.h"

static socklen_t size_of(const struct sockaddr *address)
{
	return address->sa_family == AF_INET6 ? sizeof(struct sockaddr_in6)
					      : sizeof(struct sockaddr_in);
}

static bool print_address(char text[RD_OWN_ADDRESS], const struct sockaddr *address)
{
	return !getnameinfo(
		address, size_of(address), text, RD_OWN_ADDRESS, NULL, 0, NI_NUMERICHOST);
}

/* The source address of packets to this one, which is for documentation. Sends none. */
static bool address_towards(char text[RD_OWN_ADDRESS], int family, const char *far)
{
	struct addrinfo hints = {
		.ai_family = family, .ai_socktype = SOCK_DGRAM, .ai_flags = AI_NUMERICHOST
	};
	struct sockaddr_storage here = { 0 };
	socklen_t size = sizeof(here);
	struct addrinfo *found;
	bool got;
	int fd;

	if (getaddrinfo(far, "9", &hints, &found))
		return false;
	fd = rd_above_stderr(socket(family, SOCK_DGRAM | SOCK_CLOEXEC, 0));
	got = fd >= 0 && connect(fd, found->ai_addr, found->ai_addrlen) == 0 &&
	      getsockname(fd, (struct sockaddr *)&here, &size) == 0 &&
	      print_address(text, (struct sockaddr *)&here);
	if (fd >= 0)
		close(fd);
	freeaddrinfo(found);
	return got;
}

/* A better address has a higher rating; 0: none. */
static int rate(const struct ifaddrs *one)
{
	const struct sockaddr_in6 *v6 = (const struct sockaddr_in6 *)one->ifa_addr;
	bool loopback = one->ifa_flags & IFF_LOOPBACK;

	if (!one->ifa_addr || !(one->ifa_flags & IFF_UP))
		return 0;
	if (one->ifa_addr->sa_family == AF_INET)
		return loopback ? 2 : 4;
	/* A link-local address leads nowhere without the link's name. */
	if (one->ifa_addr->sa_family != AF_INET6 || IN6_IS_ADDR_LINKLOCAL(&v6->sin6_addr))
		return 0;
	return loopback ? 1 : 3;
}

/* The best address of the interfaces of this name; NULL: of any. */
static bool address_of_interface(char text[RD_OWN_ADDRESS], const char *name, size_t length)
{
	const struct ifaddrs *best = NULL;
	struct ifaddrs *all;
	bool got;

	if (getifaddrs(&all))
		return false;
	for (const struct ifaddrs *one = all; one; one = one->ifa_next) {
		if (name && (strncmp(one->ifa_name, name, length) != 0 || one->ifa_name[length]))
			continue;
		if (rate(one) > (best ? rate(best) : 0))
			best = one;
	}
	got = best && print_address(text, best->ifa_addr);
	freeifaddrs(all);
	return got;
}

int rd_own_address(char text[RD_OWN_ADDRESS])
{
	const char *names = rd_environment("RONDO_INTERFACE");
	char quote[41];

	if (names) {
		size_t length = strcspn(names, ",");

		if (address_of_interface(text, names, length))
			return 0;
		return rd_fail(RONDO_SETTING,
			"RONDO_INTERFACE is \"%s\": its first interface does not exist, is down, or "
			"has no IP address",
			rd_quotable(quote, names));
	}
	if (address_towards(text, AF_INET, "192.0.2.1") ||
		address_towards(text, AF_INET6, "2001:db8::1") ||
		address_of_interface(text, NULL, 0))
		return 0;
	return rd_fail(RONDO_SYSTEM, "this host has no IP address at which ranks could meet");
}
