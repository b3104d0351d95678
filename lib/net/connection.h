/*
 * A connection of two processes of a job: a wire, with buffers between its bytes and whole frames
 * (codec.h). It neither waits nor knows who waits for it: its owner calls it after each event of
 * the socket, from one thread at a time. Where the job has a secret, no frame moves before the
 * other end has proved that it has it, too.
 */
#ifndef RD_CONNECTION_H
#define RD_CONNECTION_H

#include <stdbool.h>
#include <stddef.h>

#include "base/close_on_fork.h"
#include "net/wire.h"

struct rd_connection {
	struct rd_wire wire; /* its fd is -1 in a forked child */
	struct rd_close_on_fork unshared;
	size_t frame_most, out_most;
	/* Buffers, while they hold bytes: rank 0 has a connection to every rank, and most idle. */
	unsigned char *in; /* [frame_most]; frames from in_at on are not taken yet */
	size_t in_at, in_size;
	unsigned char *out; /* bytes from out_at on are to be sent */
	size_t out_at, out_size, out_capacity;
	bool lacks_memory; /* for a frame: the connection ends */
};

/* Takes over the wire; the struct stays where it is. Frames have frame_most bytes at most, and
   out_most bytes may wait to be sent: two frames at least. */
void rd_connection_init(
	struct rd_connection *connection, struct rd_wire *wire, size_t frame_most, size_t out_most);
/* Ends it, and frees its buffers. It may be closed again. resets: by a reset, since an end without
   one may be a death to the other side (bootstrap/rendezvous.h). */
void rd_connection_close(struct rd_connection *connection, bool resets);

/* Whether the other end has proved itself, or need not: before that, nothing is sent. */
bool rd_connection_is_proved(const struct rd_connection *connection);

/* Reads once: 1: bytes have come; 0: they may come later; -1: the connection has ended; *error is
   its errno, 0 for an end of file. Read until it is 0: no event shows the bytes that TLS has, and
   the buffer is kept until then. */
int rd_connection_read(struct rd_connection *connection, int *error);
/* Takes the next whole frame, which is valid until the next read, and returns its size; 0: none;
   -1: what follows is no frame. */
long rd_connection_next(struct rd_connection *connection, const unsigned char **frame);

/* Whether few enough bytes wait to be sent for a frame more. */
bool rd_connection_has_room(const struct rd_connection *connection);
/* Room for the next frame, of frame_most bytes; NULL: there is none, or no memory, and the next
   flush fails. */
unsigned char *rd_connection_reserve(struct rd_connection *connection);
/* The frame is there, of this size. */
void rd_connection_commit(struct rd_connection *connection, size_t size);
/* Whether all frames have gone, and none was lost for lack of memory. */
bool rd_connection_is_flushed(const struct rd_connection *connection);
/* Whether the owner waits for room in the socket: before the proof there is room, and nothing may
   be sent. */
bool rd_connection_waits(const struct rd_connection *connection);
/* Sends as much as the socket takes. False: the connection has ended; *error is its errno. */
bool rd_connection_flush(struct rd_connection *connection, int *error);

#endif
