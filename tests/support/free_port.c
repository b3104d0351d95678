#include "free_port.h"

#include <arpa/inet.h>
#include <criterion/criterion.h>
#include <netinet/in.h>
#include <poll.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/port.h"

#define LEAST 12000
/* Ports that lie together. A process has such blocks far from each other: the processes of one
   program, which run at one time, have neighbouring numbers, and so have their first blocks. */
#define BLOCK 10
#define BLOCKS 1000
#define STRIDE 619

static bool is_free(int port)
{
	struct sockaddr_in at = { .sin_family = AF_INET, .sin_port = htons((uint16_t)port) };
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	bool bound = bind(fd, (struct sockaddr *)&at, sizeof(at)) == 0;

	close(fd);
	return bound;
}

int free_port(void)
{
	static atomic_uint calls;
	int port;

	do {
		unsigned call = atomic_fetch_add(&calls, 1);
		unsigned block = ((unsigned)getpid() + call / BLOCK * STRIDE) % BLOCKS;

		port = LEAST + (int)(block * BLOCK + call % BLOCK);
	} while (!is_free(port) || !is_free(rd_port_from_master(port)) ||
		 !is_free(rd_port_from_master(port + 1000)));
	return port;
}

int listen_somewhere(int *port)
{
	struct sockaddr_in address = { .sin_family = AF_INET };
	socklen_t size = sizeof(address);
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

	address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
	if (fd < 0 || bind(fd, (struct sockaddr *)&address, sizeof(address)) < 0 ||
		listen(fd, 1024) < 0 || getsockname(fd, (struct sockaddr *)&address, &size) < 0)
		return -1;
	*port = ntohs(address.sin_port);
	return fd;
}

void endpoint_choose(const char *host, char endpoint[ENDPOINT_SIZE])
{
	snprintf(endpoint, ENDPOINT_SIZE, "%s:%d", host, free_port());
}

void endpoint_await(const char *endpoint, int limit_ms)
{
	struct sockaddr_in at = { .sin_family = AF_INET,
		.sin_addr.s_addr = htonl(INADDR_LOOPBACK),
		.sin_port = htons((uint16_t)atoi(strchr(endpoint, ':') + 1)) };
	int connected = -1;

	for (int waited_ms = 0; connected < 0 && waited_ms < limit_ms; waited_ms += 10) {
		int fd = socket(AF_INET, SOCK_STREAM, 0);

		connected = connect(fd, (struct sockaddr *)&at, sizeof(at));
		close(fd);
		poll(NULL, 0, 10);
	}
	cr_assert_eq(connected, 0, "no agent listens at %s", endpoint);
}
