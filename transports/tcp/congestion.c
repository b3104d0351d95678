#include "transports/tcp/congestion.h"

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdbool.h>
#include <string.h>
#include <sys/socket.h>

/* In place of a default that paces. */
static const char near[] = "reno";

/* BBR, of whichever version. */
static bool paces(const char *name)
{
	return strncmp(name, "bbr", 3) == 0;
}

/* Where the kernel refuses, the connection is slower, and works. */
static void set(int fd, const char *name)
{
	setsockopt(fd, IPPROTO_TCP, TCP_CONGESTION, name, (socklen_t)strlen(name));
}

void rd_tcp_congestion_near(int fd)
{
	char name[RD_TCP_CONGESTION_NAME];

	rd_tcp_congestion_read(fd, name);
	if (paces(name))
		set(fd, near);
}

void rd_tcp_congestion_read(int fd, char name[RD_TCP_CONGESTION_NAME])
{
	socklen_t size = RD_TCP_CONGESTION_NAME;

	memset(name, 0, RD_TCP_CONGESTION_NAME);
	if (getsockopt(fd, IPPROTO_TCP, TCP_CONGESTION, name, &size))
		name[0] = '\0';
	name[RD_TCP_CONGESTION_NAME - 1] = '\0';
}

void rd_tcp_congestion_restore(int fd, const char *name)
{
	char present[RD_TCP_CONGESTION_NAME];

	rd_tcp_congestion_read(fd, present);
	if (paces(name) && strcmp(present, near) == 0)
		set(fd, name);
}
