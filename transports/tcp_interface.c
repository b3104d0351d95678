#include "tcp_interface.h"

#include <arpa/inet.h>
#include <errno.h>
#include <ifaddrs.h>
#include <netdb.h>
#include <netinet/in.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "error.h"

socklen_t rd_address_size(int family)
{
	return family == AF_INET ? sizeof(struct sockaddr_in) : sizeof(struct sockaddr_in6);
}

const char *rd_address_text(const struct sockaddr_storage *address, char text[RD_ADDRESS_TEXT])
{
	const struct sockaddr_in *in = (const void *)address;
	const struct sockaddr_in6 *in6 = (const void *)address;
	char number[INET6_ADDRSTRLEN] = "?";

	if (address->ss_family == AF_INET) {
		inet_ntop(AF_INET, &in->sin_addr, number, sizeof(number));
		snprintf(text, RD_ADDRESS_TEXT, "%s:%d", number, ntohs(in->sin_port));
	} else {
		inet_ntop(AF_INET6, &in6->sin6_addr, number, sizeof(number));
		snprintf(text, RD_ADDRESS_TEXT, "[%s]:%d", number, ntohs(in6->sin6_port));
	}
	return text;
}

static bool is_ip(const struct sockaddr *address)
{
	return address && (address->sa_family == AF_INET || address->sa_family == AF_INET6);
}

static bool same_host(const struct sockaddr *a, const struct sockaddr *b)
{
	const struct sockaddr_in *a4 = (const void *)a, *b4 = (const void *)b;
	const struct sockaddr_in6 *a6 = (const void *)a, *b6 = (const void *)b;

	if (a->sa_family != b->sa_family)
		return false;
	if (a->sa_family == AF_INET)
		return a4->sin_addr.s_addr == b4->sin_addr.s_addr;
	return memcmp(&a6->sin6_addr, &b6->sin6_addr, sizeof(a6->sin6_addr)) == 0;
}

static void set_address(struct rd_interface *interface, const struct sockaddr *address)
{
	interface->address_size = rd_address_size(address->sa_family);
	memset(&interface->address, 0, sizeof(interface->address));
	memcpy(&interface->address, address, interface->address_size);
	if (address->sa_family == AF_INET)
		((struct sockaddr_in *)&interface->address)->sin_port = 0;
	else
		((struct sockaddr_in6 *)&interface->address)->sin6_port = 0;
}

/* How well an address serves: 0 not at all. A link-local one works only where all share a link. */
static int merit(const struct sockaddr *address, int family)
{
	const struct sockaddr_in6 *in6 = (const void *)address;

	if (!is_ip(address))
		return 0;
	if (address->sa_family == AF_INET6 && IN6_IS_ADDR_LINKLOCAL(&in6->sin6_addr))
		return 1;
	return address->sa_family == family ? 3 : 2;
}

/* Adds name to the list "lo, eth0" unless it is there. */
static void list_name(char *list, size_t list_size, const char *name)
{
	size_t length = strlen(list), name_length = strlen(name);
	bool there = false;

	for (const char *at = list; *at && !there; at += strcspn(at, " "), at += *at == ' ')
		there = strncmp(at, name, name_length) == 0 &&
			(at[name_length] == ',' || !at[name_length]);
	if (!there)
		snprintf(list + length, list_size - length, "%s%s", length ? ", " : "", name);
}

static int choose_by_name(struct rd_interface *interface, const struct ifaddrs *all,
	const struct rd_settings *settings)
{
	int family = strchr(settings->address, ':') ? AF_INET6 : AF_INET, best = 0;
	const char *name = settings->interface;
	char names[256] = "";
	bool exists = false;

	for (const struct ifaddrs *one = all; one; one = one->ifa_next) {
		if (strcmp(one->ifa_name, name) == 0) {
			exists = true;
			if (merit(one->ifa_addr, family) > best) {
				best = merit(one->ifa_addr, family);
				set_address(interface, one->ifa_addr);
			}
		} else if (is_ip(one->ifa_addr)) {
			list_name(names, sizeof(names), one->ifa_name);
		}
	}
	if (best == 0)
		return rd_fail(RONDO_SETTING, "RONDO_INTERFACE=%s: %s (there are: %s)", name,
			exists ? "this interface has no IP address" : "no such interface", names);
	snprintf(interface->name, sizeof(interface->name), "%s", name);
	return 0;
}

/* The address from which packets to `there` leave. Connecting a UDP socket asks the routing table.
 */
static bool choose_by_route(struct rd_interface *interface, const struct addrinfo *there)
{
	struct sockaddr_storage here = { 0 };
	socklen_t size = sizeof(here);
	bool found;
	int fd = socket(there->ai_family, SOCK_DGRAM | SOCK_CLOEXEC, 0);

	if (fd < 0)
		return false;
	found = connect(fd, there->ai_addr, there->ai_addrlen) == 0 &&
		getsockname(fd, (struct sockaddr *)&here, &size) == 0;
	close(fd);
	if (found)
		set_address(interface, (struct sockaddr *)&here);
	return found;
}

static int choose_by_address(
	struct rd_interface *interface, const struct ifaddrs *all, const char *address)
{
	/* The port matters to no one, but without one connect() may refuse. */
	const struct addrinfo hints = { .ai_family = AF_UNSPEC, .ai_socktype = SOCK_DGRAM };
	struct addrinfo *results;
	bool found = false;
	int err;

	err = getaddrinfo(address, "9", &hints, &results);
	if (err)
		return rd_fail(RONDO_UNREACHABLE, "MASTER_ADDR=%s: %s", address,
			err == EAI_SYSTEM ? strerror(errno) : gai_strerror(err));
	for (const struct addrinfo *one = results; one && !found; one = one->ai_next)
		found = is_ip(one->ai_addr) && choose_by_route(interface, one);
	freeaddrinfo(results);
	if (!found)
		return rd_fail(
			RONDO_UNREACHABLE, "MASTER_ADDR=%s: no interface leads there", address);
	snprintf(interface->name, sizeof(interface->name), "?");
	for (const struct ifaddrs *one = all; one; one = one->ifa_next)
		if (is_ip(one->ifa_addr) &&
			same_host(one->ifa_addr, (struct sockaddr *)&interface->address))
			snprintf(interface->name, sizeof(interface->name), "%s", one->ifa_name);
	return 0;
}

int rd_interface_choose(struct rd_interface *interface, const struct rd_settings *settings)
{
	struct ifaddrs *all;
	int err;

	if (getifaddrs(&all))
		return rd_fail_errno("cannot list the network interfaces");
	if (settings->interface[0])
		err = choose_by_name(interface, all, settings);
	else
		err = choose_by_address(
			interface, all, settings->address[0] ? settings->address : "127.0.0.1");
	freeifaddrs(all);
	return err;
}
