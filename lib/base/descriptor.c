#include "base/descriptor.h"

#include <errno.h>
#include <fcntl.h>
#include <unistd.h>

int rd_above_stderr(int fd)
{
	int copy, saved;

	if (fd < 0 || fd > STDERR_FILENO)
		return fd;
	copy = fcntl(fd, F_DUPFD_CLOEXEC, STDERR_FILENO + 1);
	saved = errno;
	close(fd);
	errno = saved;
	return copy;
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
	int fd = rd_open(path, flags), saved;
	FILE *file = fd < 0 ? NULL : fdopen(fd, (flags & O_ACCMODE) == O_RDONLY ? "r" : "w");

	if (fd >= 0 && !file) {
		saved = errno;
		close(fd);
		errno = saved;
	}
	return file;
}
