#include "simulated_pipe.h"

#include <stdlib.h>
#include <string.h>

void pipe_clear(struct pipe *pipe)
{
	memset(pipe, 0, offsetof(struct pipe, fragments));
}

bool pipe_has_room(const struct pipe *pipe)
{
	return pipe->size + RD_FRAME_MAX <= PIPE_BYTES && pipe->count + 3 <= PIPE_FRAGMENTS &&
	       !pipe->ending;
}

static uint64_t append(struct pipe *pipe, size_t size, uint64_t at)
{
	int next = (pipe->first + pipe->count++) % PIPE_FRAGMENTS;

	if (pipe->count > PIPE_FRAGMENTS || pipe->size > PIPE_BYTES)
		abort();
	if (at < pipe->last)
		at = pipe->last;
	pipe->last = at;
	pipe->fragments[next].size = size;
	pipe->fragments[next].at = at;
	return at;
}

uint64_t pipe_put(struct pipe *pipe, const void *bytes, size_t size, uint64_t at)
{
	if (pipe->size + size > PIPE_BYTES)
		abort();
	memcpy(pipe->bytes + pipe->size, bytes, size);
	pipe->size += size;
	return append(pipe, size, at);
}

uint64_t pipe_put_end(struct pipe *pipe, int error, uint64_t at)
{
	pipe->ending = true;
	pipe->error = error;
	return append(pipe, 0, at);
}

uint64_t pipe_next(const struct pipe *pipe)
{
	return pipe->count ? pipe->fragments[pipe->first].at : PIPE_NEVER;
}

void pipe_arrive(struct pipe *pipe)
{
	size_t size;

	if (pipe->count == 0)
		return;
	size = pipe->fragments[pipe->first].size;
	pipe->first = (pipe->first + 1) % PIPE_FRAGMENTS;
	pipe->count--;
	pipe->arrived += size;
	pipe->ended |= size == 0;
}

void pipe_break(struct pipe *pipe, int error)
{
	pipe_clear(pipe);
	pipe->ending = pipe->ended = true;
	pipe->error = error;
}

int pipe_take(struct pipe *pipe, struct rd_control_message *message)
{
	int took = rd_control_decode(pipe->bytes, pipe->arrived, message);
	size_t gone = took > 0 ? (size_t)took : pipe->arrived;

	if (took == 0)
		return 0;
	pipe->size -= gone;
	pipe->arrived -= gone;
	memmove(pipe->bytes, pipe->bytes + gone, pipe->size);
	return took > 0 ? 1 : -1;
}
