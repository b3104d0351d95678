/*
 * The least that a start of N processes takes here.
 *
 *     floor N PROGRAM FILE    starts PROGRAM FILE N times, and waits for all
 *     floor FILE              a rank that joins nothing: it appends its moments
 */
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>

#include "moments.h"

extern char **environ;

static int be_rank(const char *path)
{
	int64_t now = now_ns();
	struct moments moments = { now, now, now };

	return moments_append(&moments, path) ? 0 : 1;
}

int main(int argc, char **argv)
{
	int status, failed = 0, error = 0;

	if (argc == 2)
		return be_rank(argv[1]);
	if (argc != 4)
		return 2;
	for (int i = atoi(argv[1]); i > 0 && !error; i--)
		error = posix_spawn(&(pid_t){ 0 }, argv[2], NULL, NULL, argv + 2, environ);
	if (error)
		fprintf(stderr, "floor: %s: %s\n", argv[2], strerror(error));
	while (wait(&status) >= 0)
		failed |= status;
	return error || failed ? 1 : 0;
}
