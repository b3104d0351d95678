/*
 * One end of a channel (trunk.h): the frames that have come over it, until its owner takes them,
 * and its end. One thread at a time.
 */
#ifndef RD_CHANNEL_H
#define RD_CHANNEL_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct rd_trunk;
struct rd_channel_frame;

struct rd_channel {
	struct rd_trunk *trunk;
	uint32_t number; /* of the trunk's; 0: it has not greeted. The dialling end counts. */
	uint64_t id; /* of a channel that has come: for what, by its greeting */
	bool lasts; /* its greeting counts after its end, too */
	_Atomic bool *due; /* its owner's, set by what comes; NULL: it waits for an owner */
	bool stirred; /* something has come since the owner last read */
	bool ended;
	bool lost; /* it ended with its trunk; else the other process ended it, and lived */
	int error; /* of the end: an errno; 0: none */
	struct rd_channel_frame *first, **end, *taken; /* that have come; the last taken one */
	int count; /* of frames that have come */
	struct rd_channel *next, **at; /* of the trunk */
	struct rd_channel *next_waiting; /* without an owner */
};

/* Adds one to the trunk's list. NULL: no memory. */
struct rd_channel *rd_channel_make(
	struct rd_channel **list, struct rd_trunk *trunk, uint32_t number);
/* Takes it out of the list, and frees it. */
void rd_channel_free(struct rd_channel *channel);

/* Something has happened, or come, that concerns the owner. */
void rd_channel_stir(struct rd_channel *channel);
/* A frame has come; it is copied. False: no memory. */
bool rd_channel_add(struct rd_channel *channel, const unsigned char *frame, size_t size);
/* Nothing more comes. */
void rd_channel_end(struct rd_channel *channel, int error);

/* 1: a frame has come; 0: one may come later; -1: none will; *error is the errno, 0 for an end
   without one. */
int rd_channel_read(struct rd_channel *channel, int *error);
/* Takes the next frame, which is valid until the next call, and returns its size; 0: none. */
long rd_channel_next(struct rd_channel *channel, const unsigned char **frame);

#endif
