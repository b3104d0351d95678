/*
 * Small work: one rank's part of a collective of few bytes. Its data goes through the device flags'
 * LL buffers, so it needs no steps, and no addresses of peers' buffers. One block runs it.
 *
 * Each launch copies it to the device, which is a good part of the time of a call of a few bytes:
 * it holds no more than its kernel reads.
 */
#ifndef RD_SMALL_WORK_H
#define RD_SMALL_WORK_H

#include <assert.h>

#include "device/work.h"

#define RD_SMALL_WORK_MAX 256

/* Passed to a kernel by value, device flags too: to read them from memory would take longer. */
struct rd_small_work {
	int rank, size;
	int type, op; /* as struct rd_work has them */
	int from, to; /* the rank that has data for others, and the one that gets it; -1: all */
	int combines; /* received data is combined; else it lies side by side */
	int scales; /* our elements times our factor, before they are combined */
	uint32_t signature; /* equal on all ranks, or the calls differ */
	size_t count; /* elements in a block */
	/* Bytes between our data for each rank, and between the data that we receive from each; 0:
	   one place for all. */
	size_t in_stride, out_stride;
	const char *in;
	char *out;
	uint64_t factor; /* the bytes of one element */
	uint64_t timeout_ns; /* silence, before it gives up */
	struct rd_abort_flag *abort_flag;
	struct rd_device_flags *peer_device_flags[RD_WORK_RANKS];
};

static_assert(sizeof(struct rd_small_work) <= RD_SMALL_WORK_MAX, "a launch copies few bytes");

#endif
