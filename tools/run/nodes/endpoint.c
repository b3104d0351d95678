#include "run/nodes/endpoint.h"

#include <errno.h>
#include <netdb.h>
#include <netinet/in.h>
#include <string.h>
#include <unistd.h>

#include "base/descriptor.h"
#include "base/port.h"
#include "net/socket.h"

/* ---- Addresses ------------------------------------------------------------------------------ */

const char *endpoint_resolve(struct endpoint *endpoint)
{
	return rd_addresses_find(&endpoint->addresses, endpoint->name, endpoint->port, 0);
}

void endpoint_text(const struct sockaddr *address, char text[ADDRESS_SIZE])
{
	struct sockaddr_in v4 = { .sin_family = AF_INET };

	if (address->sa_family == AF_INET6) {
		const struct in6_addr *v6 = &((const struct sockaddr_in6 *)address)->sin6_addr;

		if (IN6_IS_ADDR_V4MAPPED(v6)) {
			memcpy(&v4.sin_addr, v6->s6_addr + 12, 4);
			address = (const struct sockaddr *)&v4;
		}
	}
	rd_address_print_host(text, address);
}

bool endpoint_is_loopback(const char *address)
{
	struct rd_addresses numeric;

	return !rd_addresses_find(&numeric, address, 0, AI_NUMERICHOST) &&
	       rd_address_is_loopback(&numeric.at[0]);
}

/* The first address that is this node's own; the count: none. */
static int find_here(const struct endpoint *endpoint)
{
	int i = 0;

	while (i < endpoint->addresses.count && !rd_address_is_local(&endpoint->addresses.at[i]))
		i++;
	return i;
}

bool endpoint_is_here(const struct endpoint *endpoint)
{
	return find_here(endpoint) < endpoint->addresses.count;
}

void endpoint_local(struct endpoint *local, const char *name)
{
	int i;

	*local = (struct endpoint){ .name = name };
	if (!name || endpoint_resolve(local))
		return;
	i = find_here(local);
	if (i < local->addresses.count)
		local->addresses.at[0] = local->addresses.at[i];
	local->addresses.count = i < local->addresses.count;
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
	for (int i = 0; i < endpoint->addresses.count && local->addresses.count > 0; i++)
		if (have_same_host(&endpoint->addresses.at[i], &local->addresses.at[0]))
			return true;
	return false;
}

/* ---- Sockets -------------------------------------------------------------------------------- */

/* A socket of both IP versions, bound to all addresses; of IPv4 where the kernel has no other. */
static int bind_everywhere(int port)
{
	struct sockaddr_in6 v6 = { .sin6_family = AF_INET6, .sin6_port = htons((uint16_t)port) };
	struct sockaddr_storage v4 = { .ss_family = AF_INET };
	int fd = rd_above_stderr(socket(AF_INET6, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
	int on = 1, off = 0;

	if (fd < 0)
		return rd_bind(&v4, port);
	setsockopt(fd, IPPROTO_IPV6, IPV6_V6ONLY, &off, sizeof(off));
	setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on));
	if (bind(fd, (struct sockaddr *)&v6, sizeof(v6)) == 0)
		return fd;
	rd_close_failed(fd);
	return errno == EADDRNOTAVAIL ? rd_bind(&v4, port) : -1;
}

static int bind_local(const struct endpoint *local, int port)
{
	return local && local->addresses.count > 0 ? rd_bind(&local->addresses.at[0], port)
						   : bind_everywhere(port);
}

/* The kernel may give the endpoint's port, and while that is held, it gives another one. */
static int bind_beside(const struct endpoint *local, int taken)
{
	int fd = bind_local(local, 0), other;

	if (fd < 0 || rd_port_of(fd) != taken)
		return fd;
	other = bind_local(local, 0);
	rd_close_failed(fd);
	return other;
}

/* Takes a bound socket; -1, and errno, where it cannot listen. */
static int start_listening(int fd)
{
	return fd < 0 || listen(fd, RD_BACKLOG) ? rd_close_failed(fd) : fd;
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
	return *fd < 0 ? -1 : rd_port_of(*fd);
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
