#include "run/rendezvous.h"

#include <errno.h>
#include <netdb.h>
#include <netinet/in.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/port.h"
#include "run/base/address.h"

static int listen_at(const struct addrinfo *at)
{
	int fd = socket(at->ai_family, SOCK_STREAM | SOCK_CLOEXEC, 0), one = 1;

	if (fd < 0)
		return -1;
	setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof(one));
	if (bind(fd, at->ai_addr, at->ai_addrlen) == 0 && listen(fd, RD_BACKLOG) == 0)
		return fd;
	int error = errno;

	close(fd);
	errno = error;
	return -1;
}

static int bound_port(int fd)
{
	union {
		struct sockaddr any;
		struct sockaddr_in v4;
		struct sockaddr_in6 v6;
		struct sockaddr_storage space;
	} at;
	socklen_t size = sizeof(at);

	if (getsockname(fd, &at.any, &size) < 0)
		return -1;
	return ntohs(at.any.sa_family == AF_INET6 ? at.v6.sin6_port : at.v4.sin_port);
}

/* Where /etc/hosts gives this node's own name a loopback address, the other nodes would connect to
   themselves. The user may write a loopback address, or localhost. */
static void warn_of_loopback(const struct world *world, const struct addrinfo *at)
{
	char number[INET6_ADDRSTRLEN];

	if (world->nodes == 1 || strcmp(world->address, "localhost") == 0 ||
		getnameinfo(at->ai_addr, at->ai_addrlen, number, sizeof(number), NULL, 0,
			NI_NUMERICHOST) ||
		!address_is_loopback(number) || strcmp(world->address, number) == 0)
		return;
	fprintf(stderr,
		"rondo-run: %s is %s on this node, where no other node gets: correct /etc/hosts, "
		"or give an address\n",
		world->address, number);
}

static bool report_cannot_listen(const struct world *world, int error)
{
	fprintf(stderr,
		strchr(world->address, ':') ? "rondo-run: cannot listen at [%s]:%d: %s%s\n"
					    : "rondo-run: cannot listen at %s:%d: %s%s\n",
		world->address, world->rondo_port, strerror(error),
		error == EADDRINUSE ? " (RONDO_PORT sets another port, the same on every node)"
				    : "");
	return false;
}

bool rendezvous_open(struct world *world, int *fd)
{
	struct addrinfo hints = { .ai_socktype = SOCK_STREAM }, *found;
	char port[16];
	int error;

	*fd = -1;
	snprintf(port, sizeof(port), "%d", world->rondo_port);
	error = getaddrinfo(world->address, port, &hints, &found);
	if (error) {
		fprintf(stderr, "rondo-run: %s: %s\n", world->address, gai_strerror(error));
		return false;
	}
	*fd = listen_at(found);
	error = errno;
	warn_of_loopback(world, found);
	if (*fd >= 0) {
		world->rondo_port = bound_port(*fd);
		/* The address still asks for port 0 then. */
		if (world->port == 0)
			world->port = rd_port_beside(*fd);
	}
	freeaddrinfo(found);
	if (*fd >= 0)
		return world->rondo_port > 0 && world->port > 0;
	if (error == EADDRNOTAVAIL && world->rondo_port > 0)
		return true;
	return report_cannot_listen(world, error);
}

bool rendezvous_port_is_free(const struct world *world)
{
	struct addrinfo hints = { .ai_socktype = SOCK_STREAM }, *found;
	char port[16];
	int fd, error;

	snprintf(port, sizeof(port), "%d", world->port);
	/* rendezvous_open() reports an address that is not found. */
	if (world->port == 0 || getaddrinfo(world->address, port, &hints, &found) != 0)
		return true;
	fd = listen_at(found);
	error = errno;
	freeaddrinfo(found);
	if (fd >= 0)
		close(fd);
	if (fd >= 0 || error != EADDRINUSE)
		return true;
	fprintf(stderr,
		"rondo-run: MASTER_PORT is %d, where another program listens: give another "
		"--master-port, the same on every node\n",
		world->port);
	return false;
}
