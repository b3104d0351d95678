/*
 * Work: one rank's part of one collective, as a device runs it. It is a plan of direct access with
 * addresses filled in: no links, no messages, and a barrier with the other ranks before it and
 * after it. Plain data, passed to a kernel by value.
 *
 * The stream has the barriers (stepped: the work is queued between waits for peers' flags), or the
 * kernel has them (fused: its blocks spin on device flags).
 */
#ifndef RD_WORK_H
#define RD_WORK_H

#include <stdint.h>

#include "rondo.h"

/* Ranks that may take part in work on devices. */
#define RD_WORK_RANKS 16
#define RD_WORK_STEPS (RD_WORK_RANKS + 1)
#define RD_WORK_BLOCKS 128
/* Bytes for each block of a kernel, up to the number of blocks. */
#define RD_WORK_BLOCK_SIZE (32 << 10)
/* Calls of up to this many bytes, over all blocks, go through the device flags' LL buffers, data
   and flag together (small_work.h). */
#define RD_LL_BUFFER_SIZE (16 << 10)

enum rd_work_kind {
	RD_WORK_COMBINE, /* all ranks' inputs at in_at, in rank order, into outputs at out_at */
	RD_WORK_FETCH, /* our output at out_at = rank peer's input at in_at */
	RD_WORK_SWAP, /* the same, and its output at theirs_at = our input at ours_at: both are read
			 before either is written */
	RD_WORK_SPREAD, /* all ranks' outputs = rank peer's input at in_at: ours at out_at, others'
			   at theirs_at; not where these bytes lie there already */
};

struct rd_work_step {
	uint8_t kind;
	int8_t peer; /* COMBINE: into whose output, -1: all; others: from whose input */
	uint8_t last; /* COMBINE: an average divides here */
	size_t in_at, out_at; /* bytes */
	size_t ours_at; /* SWAP */
	size_t theirs_at; /* SWAP, SPREAD */
	size_t count; /* elements */
};

/* 8 bytes of data, with a number beside each half. One 16-byte store publishes all of it. */
struct rd_ll {
	uint32_t low, number_a, high, number_b;
};

/* Which steps of a call this rank's device runs: its own; none; those of all ranks. */
#define RD_PART_OWN 0
#define RD_PART_NONE 1
#define RD_PART_ALL 2

/* Where the ranks' buffers of one call lie, in pinned memory: the host writes it while the stream
   waits, and the kernel reads it. */
struct rd_buffer_addresses {
	const char *in[RD_WORK_RANKS];
	char *out[RD_WORK_RANKS];
	uint64_t factors[RD_WORK_RANKS];
	uint32_t part; /* RD_PART_ something */
	uint32_t padding[15];
};

/*
 * Device flags: a rank's memory on its device, which its peers write into. Flags count the calls,
 * block by block, and are never cleared: an epoch is the number of a block's fused runs so far.
 */
struct rd_device_entry {
	struct rd_ll in, out, signature, factor; /* of the epoch */
};

/* A send, for the receiver's kernel (transfer_work.h); of its number in the block. */
struct rd_device_offer {
	struct rd_ll address, count, type, unused;
};

struct rd_device_flags {
	/* Written by peers: */
	struct rd_device_entry entered[RD_WORK_RANKS][RD_WORK_BLOCKS];
	uint32_t left[RD_WORK_RANKS][RD_WORK_BLOCKS];
	/* By the epoch's parity, and peer. */
	struct rd_ll ll_buffer[2][RD_WORK_RANKS][RD_LL_BUFFER_SIZE / 8];
	/* By peer and block: its offer to us, and how many of our offers it has taken. */
	struct rd_device_offer offers[RD_WORK_RANKS][RD_WORK_BLOCKS];
	uint32_t taken[RD_WORK_RANKS][RD_WORK_BLOCKS];
	/* Our own: */
	uint32_t epochs[RD_WORK_BLOCKS];
	uint32_t sent[RD_WORK_RANKS][RD_WORK_BLOCKS], received[RD_WORK_RANKS][RD_WORK_BLOCKS];
	uint32_t checked[RD_WORK_RANKS]; /* by peer: written when the device flags are tried */
	/* One for work on streams of the program, one for work on the stream of the gpu itself. */
	struct rd_buffer_addresses resolved[2];
};

/* A kernel's reports to the host, and the host's order to give up. In shared host memory. */
#define RD_ABORT_SILENCE 1
#define RD_ABORT_MISMATCH 2
#define RD_ABORT_TRANSFER 3 /* the peer sends another type or count than we receive */
/* A kernel reports a wait of this length, and goes on (RD_SLOW_MS). */
#define RD_ABORT_SLOW_NS 3000000000u

struct rd_abort_flag {
	uint32_t stop; /* not 0: give up; where the barriers are the stream's, touch nothing */
	uint32_t error; /* RD_ABORT_ something, of this peer */
	uint32_t peer;
	uint32_t warned; /* 1 + the peer that has given up a call of ours: its part is missing */
	uint32_t types[2]; /* RD_ABORT_TRANSFER: of its send, and of our receive */
	uint64_t counts[2];
	uint32_t slow; /* 1 + the peer that a kernel has waited for */
	uint32_t reserved;
};

struct rd_work {
	int rank, size;
	int type; /* enum rondo_type */
	int op; /* enum rondo_op (RONDO_AVG: a sum, divided by size at the last) */
	int fused;
	int exchanges; /* fused: peers' addresses come through the device flags; in and out hold our
			  own alone */
	int scales; /* each rank's elements times its factor, before they are combined */
	int blocks; /* the same on every rank */
	uint32_t signatures[RD_WORK_RANKS]; /* fused: ours for that peer must equal its for us */
	uint64_t timeout_ns; /* fused: silence, before it gives up */
	struct rd_abort_flag *abort_flag; /* NULL: `addresses` are resolved */
	const struct rd_buffer_addresses
		*addresses; /* in place of in, out and factors; NULL: none */
	/* Stepped: device memory for the addresses. Reads of host memory by many blocks come one
	   after another (0.8 us each on an H200), so one block reads it for all: it resolves. */
	struct rd_buffer_addresses *resolved;
	int resolves; /* this is that block: it leaves the addresses in `resolved` */
	/* in, out: the parts of each rank's buffers that are there for us. in_for, out_for: bytes
	   from the start of our buffers to the part for each peer (0 where all ranks compute it).
	 */
	const char *in[RD_WORK_RANKS];
	char *out[RD_WORK_RANKS];
	size_t in_for[RD_WORK_RANKS], out_for[RD_WORK_RANKS];
	uint64_t factors[RD_WORK_RANKS]; /* the bytes of one element; exchanged with in and out */
	struct rd_device_flags *peer_device_flags[RD_WORK_RANKS]; /* fused */
	int step_count;
	struct rd_work_step steps[RD_WORK_STEPS];
};

#endif
