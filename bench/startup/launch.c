/*
 * launch FILE RANKS COMMAND...: runs a launcher, whose RANKS ranks append their moments to FILE.
 * Prints, in ms since just before its exec:
 *
 *     STARTED JOINED CALLED ENDED CPU
 *
 * Each of the first three is the last rank's. ENDED: the launcher has ended. CPU: user and system
 * time of all processes that it waited for.
 */
#include <errno.h>
#include <fcntl.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "moments.h"

extern char **environ;

static double seconds(struct timeval time)
{
	return (double)time.tv_sec + (double)time.tv_usec / 1e6;
}

static int64_t later(int64_t a, int64_t b)
{
	return a > b ? a : b;
}

/* Reads the records, and takes the latest of each moment. Returns their number. */
static int read_latest(const char *path, struct moments *latest)
{
	FILE *file = fopen(path, "re");
	struct moments one;
	int count = 0;

	*latest = (struct moments){ 0 };
	while (file && fread(&one, sizeof(one), 1, file) == 1) {
		latest->started = later(latest->started, one.started);
		latest->joined = later(latest->joined, one.joined);
		latest->called = later(latest->called, one.called);
		count++;
	}
	if (file)
		fclose(file);
	return count;
}

static int fail(const char *what, int error)
{
	fprintf(stderr, "launch: %s: %s\n", what, strerror(error));
	return 1;
}

int main(int argc, char **argv)
{
	struct moments latest;
	struct rusage usage;
	int status, error, fd;
	int64_t began, ended;
	pid_t pid;

	if (argc < 4) {
		fprintf(stderr, "usage: launch FILE RANKS COMMAND...\n");
		return 2;
	}
	fd = open(argv[1], O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
	if (fd < 0)
		return fail(argv[1], errno);
	close(fd);
	began = now_ns();
	error = posix_spawnp(&pid, argv[3], NULL, NULL, argv + 3, environ);
	if (error)
		return fail(argv[3], error);
	if (wait4(pid, &status, 0, &usage) < 0)
		return fail("wait", errno);
	ended = now_ns();
	if (!WIFEXITED(status) || WEXITSTATUS(status) != 0) {
		fprintf(stderr, "launch: %s failed\n", argv[3]);
		return 1;
	}
	if (read_latest(argv[1], &latest) != atoi(argv[2])) {
		fprintf(stderr, "launch: not %s ranks wrote their moments\n", argv[2]);
		return 1;
	}
	printf("%.2f %.2f %.2f %.2f %.2f\n", (double)(latest.started - began) / 1e6,
		(double)(latest.joined - began) / 1e6, (double)(latest.called - began) / 1e6,
		(double)(ended - began) / 1e6,
		(seconds(usage.ru_utime) + seconds(usage.ru_stime)) * 1e3);
	return 0;
}
