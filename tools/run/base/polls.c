#include "run/base/polls.h"

#include <stdio.h>
#include <stdlib.h>

int polls_add(struct polls *polls, int fd, short events)
{
	if (polls->count == polls->capacity) {
		int capacity = 2 * polls->capacity + 16;
		struct pollfd *fds = realloc(polls->fds, (size_t)capacity * sizeof(*fds));

		/* The size is bounded: without this memory the launcher cannot go on. */
		if (!fds) {
			fputs("rondo-run: out of memory\n", stderr);
			abort();
		}
		polls->fds = fds;
		polls->capacity = capacity;
	}
	polls->fds[polls->count] = (struct pollfd){ .fd = fd, .events = events };
	return polls->count++;
}

void polls_finish(struct polls *polls)
{
	free(polls->fds);
	*polls = (struct polls){ 0 };
}
