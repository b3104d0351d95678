/*
 * Descriptors that the library makes or receives lie above 0, 1 and 2, as SQLite's do. Where the
 * program has closed one of those, the next file gets its number, and all that the program and its
 * other libraries print goes into it.
 */
#ifndef RD_DESCRIPTOR_H
#define RD_DESCRIPTOR_H

#include <fcntl.h>
#include <unistd.h>

/* Returns fd, which may be -1, or a copy in its place; -1 and errno where it cannot be copied. */
int rd_above_stderr(int fd);

/*
 * As open(2), for a file that a user names, with O_CLOEXEC and mode 0666. It never waits: a FIFO
 * that nobody reads is ENXIO, and one that nobody writes is empty.
 */
int rd_open(const char *path, int flags);

/*
 * Takes the numbers that are free below 3: around a call of another library that keeps descriptors,
 * or for good, as a program does, whose children get them, too. Returns those that it took,
 * for rd_stderr_free().
 */
static inline int rd_stderr_fill(void)
{
	int taken = 0, fd;

	while ((fd = open("/dev/null", O_RDWR)) >= 0 && fd <= STDERR_FILENO)
		taken |= 1 << fd;
	if (fd >= 0)
		close(fd);
	return taken;
}

static inline void rd_stderr_free(int taken)
{
	for (int fd = 0; fd <= STDERR_FILENO; fd++)
		if (taken & 1 << fd)
			close(fd);
}

#endif
