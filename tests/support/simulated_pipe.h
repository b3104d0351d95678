/*
 * One direction of a connection in a simulated network: bytes arrive in order, in fragments, each
 * at a time that the caller draws; then its end. Times are the caller's, in its own unit.
 */
#ifndef SIMULATED_PIPE_H
#define SIMULATED_PIPE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "bootstrap/control_message.h"

#define PIPE_BYTES (4 * RD_FRAME_MAX)
#define PIPE_FRAGMENTS 96
#define PIPE_NEVER UINT64_MAX

struct pipe {
	size_t arrived, size; /* bytes that can be read; and with those under way */
	int first, count; /* fragments under way: */
	uint64_t last; /* when the latest arrives */
	bool ending, ended; /* its end is under way, or has come; has come */
	int error; /* errno with which it ends; 0: as at the exit of a process */
	struct {
		size_t size; /* 0: the end */
		uint64_t at;
	} fragments[PIPE_FRAGMENTS];
	unsigned char bytes[PIPE_BYTES];
};

void pipe_clear(struct pipe *pipe);
/* Whether a message in two fragments has room, and an end behind it. */
bool pipe_has_room(const struct pipe *pipe);

/* Appends a fragment, or the end, which arrives at this time, or with what comes before it where
   that is later. Returns when. */
uint64_t pipe_put(struct pipe *pipe, const void *bytes, size_t size, uint64_t at);
uint64_t pipe_put_end(struct pipe *pipe, int error, uint64_t at);

/* When the next fragment or the end arrives; PIPE_NEVER: none is under way. */
uint64_t pipe_next(const struct pipe *pipe);
/* It arrives, where one is under way. */
void pipe_arrive(struct pipe *pipe);
/* Ends at once. Bytes that nobody has read are lost. */
void pipe_break(struct pipe *pipe, int error);

/* Takes the next message that has arrived: 1; 0: none has; -1: bytes that are none. */
int pipe_take(struct pipe *pipe, struct rd_control_message *message);

#endif
