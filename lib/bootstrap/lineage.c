#include "bootstrap/lineage.h"

#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
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

/* How many connections wait to be accepted; tcp_info has this for a listening socket. */
static int waiting(int listen_fd)
{
	struct tcp_info info = { 0 };
	socklen_t size = sizeof(info);

	return getsockopt(listen_fd, IPPROTO_TCP, TCP_INFO, &info, &size) ? 0
									  : (int)info.tcpi_unacked;
}

void rd_lineage_trim(const struct rd_lineage *lineage, int most)
{
	for (int left = waiting(lineage->listen_fd) - most; left > 0; left--) {
		int fd = rd_accept(lineage->listen_fd);

		if (fd < 0)
			return;
		close(fd);
	}
}

void rd_lineage_close(struct rd_lineage *lineage)
{
	if (lineage->listen_fd < 0)
		return;
	rd_close_on_fork_remove(&lineage->unshared);
	close(lineage->listen_fd);
	lineage->listen_fd = -1;
}
