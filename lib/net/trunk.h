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

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "net/channel.h"
#include "net/door.h"
#include "net/socket.h"

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

#endif
