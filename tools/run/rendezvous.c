#include "run/rendezvous.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/port.h"
#include "net/socket.h"

/* Where /etc/hosts gives this node's own name a loopback address, the other nodes would connect to
   themselves. The user may write a loopback address, or localhost. */
static void warn_of_loopback(const struct world *world, const struct sockaddr_storage *at)
{
	char number[RD_NUMERIC_ADDRESS];

	if (world->nodes == 1 || strcmp(world->address, "localhost") == 0 ||
		!rd_address_is_loopback(at) ||
		!rd_address_print_host(number, (const struct sockaddr *)at) ||
		strcmp(world->address, number) == 0)
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
	struct rd_addresses addresses;
	const char *why = rd_addresses_find(&addresses, world->address, world->rondo_port, 0);
	int error;

	*fd = -1;
	if (why) {
		fprintf(stderr, "rondo-run: %s: %s\n", world->address, why);
		return false;
	}
	*fd = rd_listen_at(&addresses.at[0], world->rondo_port);
	error = errno;
	warn_of_loopback(world, &addresses.at[0]);
	if (*fd >= 0) {
		world->rondo_port = rd_port_of(*fd);
		/* The address still asks for port 0 then. */
		if (world->port == 0)
			world->port = rd_port_beside(*fd);
		return world->rondo_port > 0 && world->port > 0;
	}
	if (error == EADDRNOTAVAIL && world->rondo_port > 0)
		return true;
	return report_cannot_listen(world, error);
}

bool rendezvous_port_is_free(const struct world *world)
{
	struct rd_addresses addresses;
	int fd, error;

	/* rendezvous_open() reports an address that is not found. */
	if (world->port == 0 || rd_addresses_find(&addresses, world->address, world->port, 0))
		return true;
	fd = rd_listen_at(&addresses.at[0], world->port);
	error = errno;
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
