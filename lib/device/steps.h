/*
 * Steps: one rank's part of one collective by messages, as a device runs it. They are a plan,
 * flattened. The kernel runs it over successive pieces of the buffers, as lib/exec does. Block b of
 * the kernel is channel b, and runs pieces b, b + channels, ...
 *
 * Messages go through a fifo: device memory of a rank, in which each peer has slots and flags on
 * each channel. Only pairs of ranks that exchange messages need to map each other's memory.
 */
#ifndef RD_STEPS_H
#define RD_STEPS_H

#include <stdint.h>

#include "rondo.h"
#include "device/work.h"

#define RD_FIFO_CHANNELS 32
/* Messages under way on a channel, in a direction; plans need two. */
#define RD_FIFO_SLOTS 4
/* Bytes of a slot: the most that keeps a rank's fifo within RD_FIFO_SIZE. */
#define RD_FIFO_SLOT_MAX (64 << 10)
#define RD_FIFO_SLOT_MIN (4 << 10)
#define RD_FIFO_SIZE (32 << 20)
/* A message lies in its slot as it lies in the buffers, modulo this, so that both go by whole
 * vectors. */
#define RD_FIFO_ALIGNMENT 16

/* Where a value lies: a chunk of some memory. enum rd_memory (plan.h) in plain numbers. */
enum rd_spot_memory { RD_SPOT_NOWHERE, RD_SPOT_IN, RD_SPOT_OUT, RD_SPOT_SCRATCH };

struct rd_spot {
	int32_t memory, chunk;
};

/*
 * A move of one chunk: a peer's message, or the value at `from`, or both combined, goes to `into`,
 * to a peer, or both.
 */
struct rd_move {
	int16_t peer, to; /* of a received and a sent message; -1: none */
	uint8_t reduces; /* the message is combined with the value at `from` */
	uint8_t last; /* the value is complete: an average divides here */
	int32_t chunk;
	struct rd_spot from, into;
};

/* A peer and this rank, on one channel. */
struct rd_fifo_line {
	/* The peer writes these: its messages, each one's number last, and how many of ours it has
	   taken. Numbers count on from call to call. */
	struct {
		uint32_t number, signature;
	} messages[RD_FIFO_SLOTS];
	uint32_t taken;
	uint32_t pad[16 - 2 * RD_FIFO_SLOTS - 1];
	/* Our own, between calls. */
	uint32_t sent, received;
	uint32_t pad_own[14];
};

struct rd_fifo {
	struct rd_fifo_line lines[RD_WORK_RANKS][RD_FIFO_CHANNELS];
	uint32_t checked[RD_WORK_RANKS * 4]; /* by peer: written when the fifo is tried */
	/* Slots follow: [peer][channel][slot], each slot_size + RD_FIFO_ALIGNMENT bytes. */
};

/* Passed to a kernel by value. */
struct rd_steps {
	int rank, size;
	int type, op; /* as struct rd_work has them */
	int channels; /* of this call: blocks */
	int fifo_channels; /* of the fifo */
	int parts; /* chunks in a block */
	int scratch_chunks; /* a channel's */
	int move_count;
	uint32_t signature; /* equal on all ranks, or the calls differ */
	uint64_t timeout_ns; /* silence, before it gives up */
	size_t element; /* bytes */
	size_t count; /* elements in a block */
	size_t chunk_count; /* elements in a chunk */
	size_t piece_count; /* elements in a slice of a chunk */
	size_t pieces;
	size_t slot_size; /* bytes; a slice has no more */
	struct rd_abort_flag *abort_flag;
	const struct rd_move *moves; /* in device memory */
	const char *in;
	char *out;
	char *scratch; /* in device memory: [channels][scratch_chunks], as long as slots */
	struct rd_fifo *peer_fifos[RD_WORK_RANKS]; /* NULL: there is no line to this rank */
};

#endif
