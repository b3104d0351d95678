#include "run/nodes/endpoint.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netdb.h>
#include <netinet/in.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/port.h"

/* ---- Addresses ------------------------------------------------------------------------------ */

static const char *resolve(struct endpoint *endpoint, int flags)
{
	struct addrinfo hints = { .ai_socktype = SOCK_STREAM, .ai_flags = flags }, *found;
	char port[16];
	int error;

	endpoint->count = 0;
	snprintf(port, sizeof(port), "%d", endpoint->port);
	error = getaddrinfo(endpoint->name, port, &hints, &found);
	if (error)
		return error == EAI_SYSTEM ? strerror(errno) : gai_strerror(error);
	for (const struct addrinfo *at = found; at && endpoint->count < ENDPOINT_ADDRESSES;
		at = at->ai_next) {
		if (at->ai_addrlen > sizeof(endpoint->addresses[0]))
			continue;
		memcpy(&endpoint->addresses[endpoint->count], at->ai_addr, at->ai_addrlen);
		endpoint->sizes[endpoint->count++] = at->ai_addrlen;
	}
	freeaddrinfo(found);
	return endpoint->count > 0 ? NULL : "it has no address";
}

const char *endpoint_resolve(struct endpoint *endpoint)
{
	return resolve(endpoint, 0);
}

bool endpoint_of_place(struct endpoint *endpoint, const struct place *place)
{
	*endpoint = (struct endpoint){ .name = place->address, .port = place->port };
	return !resolve(endpoint, AI_NUMERICHOST);
}

void endpoint_text(const struct sockaddr *address, char text[ADDRESS_SIZE])
{
	struct sockaddr_in v4 = { .sin_family = AF_INET };
	socklen_t size = sizeof(struct sockaddr_in6);

	if (address->sa_family == AF_INET6) {
		const struct in6_addr *v6 = &((const struct sockaddr_in6 *)address)->sin6_addr;

		if (IN6_IS_ADDR_V4MAPPED(v6)) {
			memcpy(&v4.sin_addr, v6->s6_addr + 12, 4);
			address = (const struct sockaddr *)&v4;
		}
	}
	if (address->sa_family == AF_INET)
		size = sizeof(v4);
	/* With the interface of a link-local address, which is part of it. */
	if (getnameinfo(address, size, text, ADDRESS_SIZE, NULL, 0, NI_NUMERICHOST))
		*text = '\0';
}

/* A socket that is bound to the port at this address; -1: errno says why. */
static int bind_at(const struct sockaddr_storage *address, socklen_t size, int port)
{
	union {
		struct sockaddr any;
		struct sockaddr_in v4;
		struct sockaddr_in6 v6;
		struct sockaddr_storage space;
	} at = { .space = *address };
	int fd = socket(at.any.sa_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
	int on = 1, error;

	if (at.any.sa_family == AF_INET6)
		at.v6.sin6_port = htons((uint16_t)port);
	else
		at.v4.sin_port = htons((uint16_t)port);
	if (fd < 0)
		return -1;
	setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on));
	if (bind(fd, &at.any, size) == 0)
		return fd;
	error = errno;
	close(fd);
	errno = error;
	return -1;
}

static bool is_here(const struct sockaddr_storage *address, socklen_t size)
{
	int fd = bind_at(address, size, 0);

	if (fd >= 0)
		close(fd);
	return fd >= 0;
}

/* The first address that is this node's own; the count: none. */
static int find_here(const struct endpoint *endpoint)
{
	int i = 0;

	while (i < endpoint->count && !is_here(&endpoint->addresses[i], endpoint->sizes[i]))
		i++;
	return i;
}

bool endpoint_is_here(const struct endpoint *endpoint)
{
	return find_here(endpoint) < endpoint->count;
}

void endpoint_local(struct endpoint *local, const char *name)
{
	int i;

	*local = (struct endpoint){ .name = name };
	if (!name || endpoint_resolve(local))
		return;
	i = find_here(local);
	if (i < local->count) {
		local->addresses[0] = local->addresses[i];
		local->sizes[0] = local->sizes[i];
	}
	local->count = i < local->count;
}

static bool have_same_host(const struct sockaddr_storage *a, const struct sockaddr_storage *b)
{
	char text_a[ADDRESS_SIZE], text_b[ADDRESS_SIZE];

	endpoint_text((const struct sockaddr *)a, text_a);
	endpoint_text((const struct sockaddr *)b, text_b);
	return strcmp(text_a, text_b) == 0;
}

bool endpoint_is_at(const struct endpoint *endpoint, const struct endpoint *local)
{
	for (int i = 0; i < endpoint->count && local->count > 0; i++)
		if (have_same_host(&endpoint->addresses[i], &local->addresses[0]))
			return true;
	return false;
}

/* ---- Sockets -------------------------------------------------------------------------------- */

/* A socket of both IP versions, bound to all addresses; of IPv4 where the kernel has no other. */
static int bind_everywhere(int port)
{
	struct sockaddr_in6 v6 = { .sin6_family = AF_INET6, .sin6_port = htons((uint16_t)port) };
	struct sockaddr_in v4 = { .sin_family = AF_INET, .sin_port = v6.sin6_port };
	int kind = SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, on = 1, off = 0, error;
	int fd = socket(AF_INET6, kind, 0);
	bool bound;

	if (fd >= 0) {
		setsockopt(fd, IPPROTO_IPV6, IPV6_V6ONLY, &off, sizeof(off));
		setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on));
		bound = bind(fd, (struct sockaddr *)&v6, sizeof(v6)) == 0;
	}
	if (fd >= 0 && !bound && errno == EADDRNOTAVAIL) {
		close(fd);
		fd = -1;
	}
	if (fd < 0) {
		fd = socket(AF_INET, kind, 0);
		if (fd < 0)
			return -1;
		setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on));
		bound = bind(fd, (struct sockaddr *)&v4, sizeof(v4)) == 0;
	}
	if (bound)
		return fd;
	error = errno;
	close(fd);
	errno = error;
	return -1;
}

static int bind_local(const struct endpoint *local, int port)
{
	return local && local->count > 0 ? bind_at(&local->addresses[0], local->sizes[0], port)
					 : bind_everywhere(port);
}

/* The kernel may give the endpoint's port, and while that is held, it gives another one. */
static int bind_beside(const struct endpoint *local, int taken)
{
	int fd = bind_local(local, 0), other, error;

	if (fd < 0 || endpoint_port_of(fd) != taken)
		return fd;
	other = bind_local(local, 0);
	error = errno;
	close(fd);
	errno = error;
	return other;
}

/* Takes a bound socket; -1, and errno, where it cannot listen. */
static int start_listening(int fd)
{
	int error;

	if (fd < 0 || listen(fd, RD_BACKLOG) == 0)
		return fd;
	error = errno;
	close(fd);
	errno = error;
	return -1;
}

int endpoint_listen(const struct endpoint *local, int port)
{
	return start_listening(bind_local(local, port));
}

int endpoint_listen_beside(const struct endpoint *local, int taken)
{
	return start_listening(bind_beside(local, taken));
}

int endpoint_reserve(int taken, int *fd)
{
	*fd = bind_beside(NULL, taken);
	return *fd < 0 ? -1 : endpoint_port_of(*fd);
}

int endpoint_reserve_for_program(int taken, int *fd)
{
	for (int i = 0; i < RD_PORT_DRAWS; i++) {
		int port = rd_port_draw("");

		*fd = port && port != taken ? bind_everywhere(port) : -1;
		if (*fd >= 0)
			return port;
	}
	return endpoint_reserve(taken, fd);
}

int endpoint_port(const struct sockaddr *address)
{
	return ntohs(address->sa_family == AF_INET6
			     ? ((const struct sockaddr_in6 *)address)->sin6_port
			     : ((const struct sockaddr_in *)address)->sin_port);
}

int endpoint_port_of(int fd)
{
	struct sockaddr_storage at;
	socklen_t size = sizeof(at);

	if (getsockname(fd, (struct sockaddr *)&at, &size) < 0)
		return -1;
	return endpoint_port((struct sockaddr *)&at);
}
