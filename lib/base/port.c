#include "base/port.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <stdint.h>
#include <stdio.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "base/descriptor.h"

#define RANGE "%s/proc/sys/net/ipv4/ip_local_port_range" /* of IPv6 as well */
#define LEAST 1024 /* those below it are for root */
#define MOST 65535

union address {
	struct sockaddr any;
	struct sockaddr_in v4;
	struct sockaddr_in6 v6;
	struct sockaddr_storage space;
};

/* A bound socket; -1, and errno. Both kinds of address have the port in one place. */
static int bind_at(union address at, socklen_t size, int port)
{
	int fd = rd_above_stderr(socket(at.any.sa_family, SOCK_STREAM | SOCK_CLOEXEC, 0));

	at.v4.sin_port = htons((uint16_t)port);
	return fd >= 0 && bind(fd, &at.any, size) == 0 ? fd : rd_close_failed(fd);
}

int rd_port_of(int fd)
{
	union address at;
	socklen_t size = sizeof(at);

	return getsockname(fd, &at.any, &size) ? -1 : ntohs(at.v4.sin_port);
}

static int bind_to_loopback(bool *is_v6)
{
	const union address v4 = { .v4 = { .sin_family = AF_INET,
					   .sin_addr.s_addr = htonl(INADDR_LOOPBACK) } };
	const union address v6 = { .v6 = { .sin6_family = AF_INET6,
					   .sin6_addr = IN6ADDR_LOOPBACK_INIT } };
	int fd = bind_at(v4, sizeof(v4.v4), 0), error = errno;

	*is_v6 = fd < 0;
	if (fd < 0)
		fd = bind_at(v6, sizeof(v6.v6), 0);
	/* The reason that more hosts have. */
	if (fd < 0)
		errno = error;
	return fd;
}

const char *rd_loopback(void)
{
	bool is_v6;
	int fd = bind_to_loopback(&is_v6);

	if (fd >= 0)
		close(fd);
	return fd >= 0 && is_v6 ? "::1" : "127.0.0.1";
}

int rd_listen_on_loopback(int *port)
{
	bool is_v6;
	int fd = bind_to_loopback(&is_v6);

	if (fd < 0 || listen(fd, RD_BACKLOG))
		return rd_close_failed(fd);
	*port = rd_port_of(fd);
	return *port < 0 ? rd_close_failed(fd) : fd;
}

bool rd_address_lacks_zone(const char *address)
{
	struct in6_addr v6;

	return inet_pton(AF_INET6, address, &v6) == 1 && IN6_IS_ADDR_LINKLOCAL(&v6);
}

int rd_port_beside(int fd)
{
	union address at;
	socklen_t size = sizeof(at);
	int bound = -1, port;

	if (getsockname(fd, &at.any, &size))
		return -1;
	for (int i = 0; bound < 0 && i < RD_PORT_DRAWS; i++) {
		port = rd_port_draw("");
		bound = port ? bind_at(at, size, port) : -1;
	}
	if (bound < 0)
		bound = bind_at(at, size, 0);
	if (bound < 0)
		return -1;
	port = rd_port_of(bound);
	close(bound);
	return port;
}

int rd_port_draw(const char *root)
{
	char path[512];
	int first = 32768, last = 60999; /* the kernel's default */
	uint32_t random;

	snprintf(path, sizeof(path), RANGE, root);
	FILE *file = fopen(path, "re");
	if (file) {
		if (fscanf(file, "%d %d", &first, &last) != 2)
			first = LEAST, last = MOST;
		fclose(file);
	}
	int below = first > LEAST ? first - LEAST : 0;
	int above = last < MOST ? MOST - last : 0;
	/* Most programs' fixed ports are below the range, but above it may be none. */
	if (below + above == 0)
		return 0;
	if (getrandom(&random, sizeof(random), 0) != sizeof(random))
		random = (uint32_t)clock();
	int drawn = (int)(random % (uint32_t)(below + above));
	return drawn < below ? LEAST + drawn : last + 1 + drawn - below;
}
