/*
 * Transfer work: a rank's sends and receives of one group, as one kernel does them. What a kernel
 * knows of a transfer it tells the receiver's by the device flags; block b of a rank meets block b
 * of its peer, as in work.h, and moves its share of each transfer that has so many blocks.
 *
 * The receiver's kernel reads the sender's memory, and then says that it has: the sender's waits
 * for that. Transfers between two ranks, in one direction, follow each other; all others are
 * independent. They are numbered by the device flags, so that work can be run any number of times.
 */
#ifndef RD_TRANSFER_WORK_H
#define RD_TRANSFER_WORK_H

#include "device/work.h"

/* A kernel is passed so many; more lie in memory. */
#define RD_TRANSFERS_INLINE 96
/* A block for so many bytes, as long as there are blocks. */
#define RD_TRANSFER_BLOCK (32 << 10)

struct rd_transfer {
	char *at; /* what is sent, or where what is received is to lie */
	const char
		*from; /* of a receive: where the sender has it; NULL: that comes with the offer */
	uint64_t count; /* elements */
	uint32_t type, element; /* enum rondo_type; bytes */
};

enum rd_transfer_kind { RD_TRANSFER_SEND, RD_TRANSFER_RECEIVE };

/* Blocks that so many bytes have, of so many at most. */
#define RD_TRANSFER_BLOCKS(size, most) \
	((size) / RD_TRANSFER_BLOCK < (size_t)(most) ? (int)((size) / RD_TRANSFER_BLOCK) + 1 \
						     : (most))

/* Passed to a kernel by value. */
struct rd_transfer_work {
	int rank, size;
	int blocks; /* of the kernel */
	int most_blocks; /* that a transfer has: the same on every rank */
	uint64_t timeout_ns; /* silence, before it gives up */
	struct rd_abort_flag *abort_flag;
	struct rd_device_flags *peer_device_flags[RD_WORK_RANKS];
	/* Where those of a kind with a peer begin; they end where the next peer's begin. */
	uint16_t first[2][RD_WORK_RANKS + 1];
	const struct rd_transfer *more; /* all of them; NULL: they are here */
	struct rd_transfer list[RD_TRANSFERS_INLINE];
};

#endif
