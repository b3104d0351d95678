#include "endpoint.h"

#include <arpa/inet.h>
#include <criterion/criterion.h>
#include <netinet/in.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "free_port.h"

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
