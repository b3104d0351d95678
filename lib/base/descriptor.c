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
