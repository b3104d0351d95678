#include "moments.h"

#include <fcntl.h>
#include <stdio.h>
#include <time.h>
#include <unistd.h>

int64_t now_ns(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return now.tv_sec * INT64_C(1000000000) + now.tv_nsec;
}

/* One write, so that those of several ranks do not mix. */
bool moments_append(const struct moments *moments, const char *path)
{
	int fd = open(path, O_WRONLY | O_APPEND | O_CLOEXEC);
	bool written = fd >= 0 && write(fd, moments, sizeof(*moments)) == sizeof(*moments);

	if (!written)
		fprintf(stderr, "cannot append to %s: %m\n", path);
	if (fd >= 0)
		close(fd);
	return written;
}
