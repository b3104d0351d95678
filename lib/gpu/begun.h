/*
 * What a rank has begun lately: which of its calls go from device to device, and which over links.
 * It stands on the rank's host flags, where its peers see it: a call that goes the one way on one rank
 * and the other way on another (a send from device memory that is received into host memory) meets
 * nobody, and would end by the timeout alone.
 *
 * Whose device waits compares, now and then. Calls that are staged are not noted, for they go over
 * links, and may meet those in host memory there.
 */
#ifndef RD_BEGUN_H
#define RD_BEGUN_H

#include <stdbool.h>

#include "comm/run.h"
#include "device/work.h"

/* Calls of a kind that are remembered. Where more were begun before a peer began the odd one, the
   timeout alone ends it. */
#define RD_BEGUN_CALLS 64

/* By number, modulo so many: twice the number, and one more where it goes from device to device.
   0: none yet. */
struct rd_begun {
	uint32_t collectives[RD_BEGUN_CALLS];
	uint32_t sends[RD_WORK_RANKS][RD_BEGUN_CALLS], receives[RD_WORK_RANKS][RD_BEGUN_CALLS];
};

/* When a numbered call begins, in any thread. Does nothing where calls do not go from device to
   device. */
void rd_begun_note(struct rondo_comm *comm, const struct rd_call *call, bool on_devices);

/* 0; or RONDO_MISMATCH, where a peer has begun a call of ours the other way: ends the comm. */
int rd_begun_compare(struct rd_gpu *gpu);

#endif
