/*
 * Descriptors that the library makes or receives lie above 0, 1 and 2, as SQLite's do. Where the
 * program has closed one of those, the next file gets its number. The program's output would go
 * into that file.
 */
#ifndef RD_DESCRIPTOR_H
#define RD_DESCRIPTOR_H

#include <fcntl.h>
#include <stdio.h>
#include <unistd.h>

/* Returns fd, which may be -1, or a copy in its place; -1 and errno where it cannot be copied. */
int rd_above_stderr(int fd);
/* Closes fd, which may be -1, after an error whose errno it keeps. Returns -1. */
int rd_close_failed(int fd);

struct rd_close_on_fork;
/* Closes *fd, of which `unshared` is the registration (close_on_fork.h), and sets it to -1; it may
   be -1, and not registered. */
void rd_close_unshared(struct rd_close_on_fork *unshared, int *fd);

/*
 * As open(2), for a file that a user names, with O_CLOEXEC and mode 0666. Opening never waits: a
 * FIFO that nobody reads is ENXIO, and one that nobody writes is empty. Later reads and writes of a
 * FIFO wait, unless flags have O_NONBLOCK: the library reads with it, programs without.
 */
int rd_open(const char *path, int flags);
/* As rd_open(), a stream. NULL and errno where it cannot be opened. */
FILE *rd_fopen(const char *path, int flags);
/* Reads a whole file, or `most` bytes and one more. Returns its size; -1 and errno. The caller
   frees *text, also then. */
ssize_t rd_read_whole(char **text, const char *path, size_t most);

/*
 * Takes the numbers that are free below 3, and returns them for rd_stderr_free(). The library does
 * so around a call of another library that keeps descriptors. A program does so for good: its
 * children get them, too.
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
