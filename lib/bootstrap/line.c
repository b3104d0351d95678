#include "bootstrap/line.h"

#include <fcntl.h>
#include <unistd.h>

#include "base/error.h"
#include "net/socket.h"

static void keep(struct rd_line *line, int fd)
{
	line->listen_fd = fd;
	rd_close_on_fork_add(&line->unshared, &line->listen_fd);
}

int rd_line_open(struct rd_line *line, const struct sockaddr_storage *address, int origin)
{
	int fd = rd_listen_near(address);

	rd_line_close(line);
	if (fd < 0 || rd_socket_place(fd, line->place.address, &line->place.port)) {
		if (fd >= 0)
			close(fd);
		return rd_fail_errno("rank %d cannot listen for the case of a failure", origin);
	}
	line->place.origin = origin;
	keep(line, fd);
	return 0;
}

int rd_line_join(struct rd_line *line, const struct rd_line *of)
{
	int fd = fcntl(of->listen_fd, F_DUPFD_CLOEXEC, STDERR_FILENO + 1);

	if (fd < 0)
		return rd_fail_errno(
			"rank %d cannot keep the place where it is met", of->place.origin);
	*line = (struct rd_line){ .id = of->id, .place = of->place };
	keep(line, fd);
	return 0;
}

void rd_line_close(struct rd_line *line)
{
	if (line->listen_fd < 0)
		return;
	rd_close_on_fork_remove(&line->unshared);
	close(line->listen_fd);
	line->listen_fd = -1;
}
