#include "base/descriptor.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/close_on_fork.h"

int rd_above_stderr(int fd)
{
	int copy;

	if (fd < 0 || fd > STDERR_FILENO)
		return fd;
	copy = fcntl(fd, F_DUPFD_CLOEXEC, STDERR_FILENO + 1);
	rd_close_failed(fd);
	return copy;
}

int rd_close_failed(int fd)
{
	int saved = errno;

	if (fd >= 0)
		close(fd);
	errno = saved;
	return -1;
}

void rd_close_unshared(struct rd_close_on_fork *unshared, int *fd)
{
	if (*fd < 0)
		return;
	rd_close_on_fork_remove(unshared);
	close(*fd);
	*fd = -1;
}

int rd_open(const char *path, int flags)
{
	int fd = open(path, flags | O_CLOEXEC | O_NOCTTY | O_NONBLOCK, 0666);

	if (fd >= 0 && !(flags & O_NONBLOCK))
		fcntl(fd, F_SETFL, fcntl(fd, F_GETFL) & ~O_NONBLOCK);
	return rd_above_stderr(fd);
}

FILE *rd_fopen(const char *path, int flags)
{
	int fd = rd_open(path, flags);
	FILE *file = fd < 0 ? NULL : fdopen(fd, (flags & O_ACCMODE) == O_RDONLY ? "r" : "w");

	if (!file)
		rd_close_failed(fd);
	return file;
}

ssize_t rd_read_whole(char **text, const char *path, size_t most)
{
	int fd = rd_open(path, O_RDONLY | O_NONBLOCK);
	size_t size = 0;
	ssize_t got = -1;

	*text = fd < 0 ? NULL : malloc(most + 1);
	if (*text)
		do {
			got = read(fd, *text + size, most + 1 - size);
			size += got > 0 ? (size_t)got : 0;
		} while (got > 0 || (got < 0 && errno == EINTR));
	if (got < 0)
		return rd_close_failed(fd);
	close(fd);
	return (ssize_t)size;
}
