/*
 * Trunks: connections of this process and others, each of which carries many channels. A channel is
 * a connection of its own to its two ends: frames (codec.h) in their order, and an end. So two
 * processes share one socket, and one proof of the secret, for all that they make together.
 *
 * Only the end that has dialled the trunk opens channels over it. The first frame of a channel is
 * its greeting. A trunk stays when its channels have closed, for the next one.
 *
 * Nothing here waits, and one thread at a time uses the trunks. Its epoll reports a trunk's events.
 */
#ifndef RD_TRUNK_H
#define RD_TRUNK_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "net/door.h"
#include "net/socket.h"

struct rd_channel;
struct rd_trunk;

struct rd_trunks {
	int epoll_fd; /* the caller's; its events have the trunk as data.ptr, with bit 0 set */
	size_t frame_most; /* of a channel's frames */
	/* For what a channel has come that begins with this frame; 0: for nothing. */
	uint64_t (*find)(const unsigned char *frame, size_t size, bool *lasts);
	uint64_t job; /* whose they are, the same at both ends: set before one is dialled */
	struct rd_trunk *first;
	struct rd_channel *waiting; /* which have come, and have no owner: the latest first */
	int waiting_count;
	bool news; /* one has come since the caller last looked */
};

/* Closes all trunks, whose channels have been closed but for those without an owner. */
void rd_trunks_finish(struct rd_trunks *trunks);

/* The job of a trunk that begins with this frame; 0: none does. */
uint64_t rd_trunk_job(const unsigned char *frame, size_t size);
/* Takes over a connection that has been accepted, and has greeted; it is tuned. */
void rd_trunks_adopt(struct rd_trunks *trunks, struct rd_wire *wire);
/* The next channel without an owner that has come for this: the caller's. NULL: none. */
struct rd_channel *rd_trunks_take(struct rd_trunks *trunks, uint64_t id);

/* A channel to this address, over a new trunk where there is none: it is dialled, with a proof of
   the secret if there is one (psk, or NULL). NULL: an errno. */
struct rd_channel *rd_channel_open(struct rd_trunks *trunks, const struct rd_addresses *addresses,
	int index, const unsigned char *psk, int timeout_ms);
/* Closes and frees it. resets: the other end takes it for a reset. */
void rd_channel_close(struct rd_channel *channel, bool resets);
/* The trunk's socket; -1 in a forked child. */
int rd_channel_fd(const struct rd_channel *channel);
/* Whether the trunk is being dialled. */
bool rd_channel_is_connecting(const struct rd_channel *channel);

static inline struct rd_trunk *rd_trunk_of_event(uint64_t data)
{
	return (struct rd_trunk *)(uintptr_t)(data - 1);
}
/* After an event of the trunk, which may be freed then. */
void rd_trunk_serve(struct rd_trunk *trunk);
/* Takes what has come over the channel's trunk. */
void rd_channel_look(struct rd_channel *channel);

/* As rd_connection_has_room() and its kin; each sends over the trunk. */
bool rd_channel_has_room(const struct rd_channel *channel);
unsigned char *rd_channel_reserve(struct rd_channel *channel);
void rd_channel_commit(struct rd_channel *channel, size_t size);
bool rd_channel_is_flushed(const struct rd_channel *channel);
bool rd_channel_flush(struct rd_channel *channel, int *error);

/* ---- channel.c: one end of a channel --------------------------------------------------------- */

/* The frames that have come over it, until its owner takes them, and its end. */
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
