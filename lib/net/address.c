#include "net/address.h"

#include <arpa/inet.h>
#include <errno.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <netdb.h>
#include <netinet/in.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/descriptor.h"

const char *rd_addresses_find(struct rd_addresses *addresses, const char *name, int port, int flags)
{
	struct addrinfo hints = { .ai_socktype = SOCK_STREAM, .ai_flags = flags }, *found;
	char text[16];
	int error;

	memset(addresses, 0, sizeof(*addresses));
	snprintf(text, sizeof(text), "%d", port);
	error = getaddrinfo(name, text, &hints, &found);
	if (error)
		return error == EAI_SYSTEM ? strerror(errno) : gai_strerror(error);
	for (const struct addrinfo *at = found; at && addresses->count < RD_ADDRESSES_MAX;
		at = at->ai_next)
		if (at->ai_family == AF_INET || at->ai_family == AF_INET6)
			memcpy(&addresses->at[addresses->count++], at->ai_addr, at->ai_addrlen);
	freeaddrinfo(found);
	return addresses->count > 0 ? NULL : "it has no address";
}

socklen_t rd_address_size(int family)
{
	return family == AF_INET6 ? sizeof(struct sockaddr_in6) : sizeof(struct sockaddr_in);
}

int rd_address_port(const struct sockaddr_storage *address)
{
	/* It lies at one place in both families. */
	return ntohs(((const struct sockaddr_in *)address)->sin_port);
}

bool rd_address_same_host(const struct sockaddr *one, const struct sockaddr_storage *other)
{
	if (!one || one->sa_family != other->ss_family)
		return false;
	if (one->sa_family == AF_INET)
		return ((const struct sockaddr_in *)one)->sin_addr.s_addr ==
		       ((const struct sockaddr_in *)other)->sin_addr.s_addr;
	return one->sa_family == AF_INET6 &&
	       IN6_ARE_ADDR_EQUAL(&((const struct sockaddr_in6 *)one)->sin6_addr,
		       &((const struct sockaddr_in6 *)other)->sin6_addr);
}

bool rd_address_is_loopback(const struct sockaddr_storage *address)
{
	if (address->ss_family == AF_INET6)
		return IN6_IS_ADDR_LOOPBACK(&((const struct sockaddr_in6 *)address)->sin6_addr);
	return ntohl(((const struct sockaddr_in *)address)->sin_addr.s_addr) >> 24 ==
	       IN_LOOPBACKNET;
}

/* A socket can be bound to it, then. */
bool rd_address_is_local(const struct sockaddr_storage *address)
{
	struct sockaddr_storage at = *address;
	int fd = rd_above_stderr(socket(at.ss_family, SOCK_DGRAM | SOCK_CLOEXEC, 0));
	bool is_local;

	((struct sockaddr_in *)&at)->sin_port = 0;
	is_local = fd >= 0 && bind(fd, (struct sockaddr *)&at, rd_address_size(at.ss_family)) == 0;
	if (fd >= 0)
		close(fd);
	return is_local;
}

/* connect() on a UDP socket looks it up in the routing table. */
bool rd_address_towards(struct sockaddr_storage *here, const struct sockaddr_storage *there)
{
	int fd = rd_above_stderr(socket(there->ss_family, SOCK_DGRAM | SOCK_CLOEXEC, 0));
	bool found = fd >= 0 &&
		     connect(fd, (const struct sockaddr *)there,
			     rd_address_size(there->ss_family)) == 0 &&
		     rd_local_address_get(here, fd) == 0;

	if (fd >= 0)
		close(fd);
	return found;
}

/* ---- As text ------------------------------------------------------------------------------- */

static void host_text(char text[INET6_ADDRSTRLEN], const struct sockaddr_storage *address)
{
	const void *bytes = &((const struct sockaddr_in *)address)->sin_addr;

	if (address->ss_family == AF_INET6)
		bytes = &((const struct sockaddr_in6 *)address)->sin6_addr;
	if (!inet_ntop(address->ss_family, bytes, text, INET6_ADDRSTRLEN))
		strcpy(text, "?");
}

const char *rd_address_print(char text[RD_ADDRESS_SIZE], const struct sockaddr_storage *address)
{
	char host[INET6_ADDRSTRLEN];

	host_text(host, address);
	snprintf(text, RD_ADDRESS_SIZE, address->ss_family == AF_INET6 ? "[%s]:%d" : "%s:%d", host,
		rd_address_port(address));
	return text;
}

bool rd_address_print_host(char text[RD_NUMERIC_ADDRESS], const struct sockaddr *address)
{
	/* With the interface of a link-local address, which is part of it. */
	bool has_text = !getnameinfo(address, rd_address_size(address->sa_family), text,
		RD_NUMERIC_ADDRESS, NULL, 0, NI_NUMERICHOST);

	if (!has_text)
		text[0] = '\0';
	return has_text;
}

/* ---- The address of a socket ---------------------------------------------------------------- */

static void interface_of(char name[IF_NAMESIZE], const struct sockaddr_storage *address)
{
	struct ifaddrs *list = NULL;

	strcpy(name, "?");
	if (getifaddrs(&list))
		return;
	for (const struct ifaddrs *at = list; at; at = at->ifa_next) {
		if (!rd_address_same_host(at->ifa_addr, address))
			continue;
		snprintf(name, IF_NAMESIZE, "%s", at->ifa_name);
		break;
	}
	freeifaddrs(list);
}

int rd_local_address_get(struct sockaddr_storage *local, int fd)
{
	socklen_t size = sizeof(*local);

	memset(local, 0, sizeof(*local));
	return getsockname(fd, (struct sockaddr *)local, &size);
}

void rd_local_address_print(char text[RD_ADDRESS_SIZE], const struct sockaddr_storage *local)
{
	char host[INET6_ADDRSTRLEN], interface[IF_NAMESIZE];

	host_text(host, local);
	interface_of(interface, local);
	snprintf(text, RD_ADDRESS_SIZE, "%s:%s<%d>", interface, host, rd_address_port(local));
}
