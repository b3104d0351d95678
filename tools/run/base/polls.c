#include "run/base/polls.h"

#include <stdlib.h>

#include "run/base/memory.h"

int polls_add(struct polls *polls, int fd, short events)
{
	polls->fds = memory_grow(polls->fds, polls->count, &polls->capacity, sizeof(*polls->fds));
	polls->fds[polls->count] = (struct pollfd){ .fd = fd, .events = events };
	return polls->count++;
}

void polls_finish(struct polls *polls)
{
	free(polls->fds);
	*polls = (struct polls){ 0 };
}
