/*
 * Transfer work: a rank's sends and receives of one group, as one kernel runs them. The sender's
 * kernel writes an offer to the receiver's device flags. Block b of a rank exchanges flags with
 * block b of its peer, as in work.h, and copies its share of each transfer of more than b blocks.
 *
 * The receiver's kernel reads the sender's memory, then writes `taken`, for which the sender's
 * waits. Transfers between two ranks in one direction follow each other; all others are
 * independent. Device flags count them, so that work can run any number of times.
 */
#ifndef RD_TRANSFER_WORK_H
#define RD_TRANSFER_WORK_H

#include "device/work.h"

/* Transfers that a kernel takes by value; longer lists lie in memory. */
#define RD_TRANSFERS_INLINE 96
/* Bytes for each block, up to most_blocks. */
#define RD_TRANSFER_BLOCK (32 << 10)

struct rd_transfer {
	char *at; /* what is sent, or where what is received is to lie */
	/* A receive's source at the sender; NULL: the offer brings it. */
	const char *from;
	uint64_t count; /* elements */
	uint32_t type, element; /* enum rondo_type; bytes */
};

enum rd_transfer_kind { RD_TRANSFER_SEND, RD_TRANSFER_RECEIVE };

/* Blocks of a transfer of `size` bytes. */
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
