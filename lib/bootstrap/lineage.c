#include "bootstrap/lineage.h"

#include <fcntl.h>
#include <netinet/in.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/error.h"
#include "net/socket.h"

static void keep(struct rd_lineage *lineage, int fd)
{
	lineage->listen_fd = fd;
	rd_close_on_fork_add(&lineage->unshared, &lineage->listen_fd);
}

int rd_lineage_open(struct rd_lineage *lineage, const struct sockaddr_storage *address, int origin)
{
	int fd = rd_listen_near(address);

	rd_lineage_close(lineage);
	if (fd < 0 || rd_socket_place(fd, lineage->place.address, &lineage->place.port)) {
		if (fd >= 0)
			close(fd);
		return rd_fail_errno("rank %d cannot listen for the case of a failure", origin);
	}
	lineage->place.origin = origin;
	keep(lineage, fd);
	return 0;
}

int rd_lineage_join(struct rd_lineage *lineage, const struct rd_lineage *of)
{
	int fd = fcntl(of->listen_fd, F_DUPFD_CLOEXEC, STDERR_FILENO + 1);

	if (fd < 0)
		return rd_fail_errno(
			"rank %d cannot keep the place where it is met", of->place.origin);
	*lineage = (struct rd_lineage){ .id = of->id, .place = of->place };
	keep(lineage, fd);
	return 0;
}

void rd_lineage_close(struct rd_lineage *lineage)
{
	if (lineage->listen_fd < 0)
		return;
	rd_close_on_fork_remove(&lineage->unshared);
	close(lineage->listen_fd);
	lineage->listen_fd = -1;
}

struct sockaddr_storage rd_lineage_near(const struct rd_lineage *lineage)
{
	struct sockaddr_storage near = { 0 };
	socklen_t size = sizeof(near);

	if (getsockname(lineage->listen_fd, (struct sockaddr *)&near, &size))
		memset(&near, 0, sizeof(near));
	return near;
}

void rd_lineage_meet(struct rd_settings *settings, const struct rd_lineage_address *place)
{
	settings->rendezvous_fd = -1;
	settings->port = (int)place->port;
	if (place->address[0])
		snprintf(settings->address, sizeof(settings->address), "%s", place->address);
}
