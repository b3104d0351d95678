#include "transports/tcp/congestion.h"

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <string.h>
#include <sys/socket.h>

/* Where the kernel refuses, the connection is slower, and works. */
static void set(int fd, const char *name)
{
	setsockopt(fd, IPPROTO_TCP, TCP_CONGESTION, name, (socklen_t)strlen(name));
}

void rd_tcp_congestion_near(int fd)
{
	set(fd, "reno");
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
	if (*name)
		set(fd, name);
}
