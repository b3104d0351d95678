/*
 * Watching: whether the comm still stands, and waits that end when it fails
 * or a peer is silent for too long.
 */
#ifndef RD_WATCH_H
#define RD_WATCH_H

#include "gpu/state.h"

/* Bound in ms of the wait for streams to end after a failure. */
#define RD_WATCH_RELEASE_MS 10000
/* After a failure, in ms: so long a stream still waits for peers that may be at work in this rank's
   buffers. */
#define RD_WATCH_LEAVE_MS 100
/* Polls that yield before a thread sleeps for a flag. */
#define RD_WATCH_YIELDS 100
/* Bound of one sleep for a flag in ns: a device that writes a flag wakes no thread. */
#define RD_WATCH_SLEEP_NS 50000

/* 0 while the comm stands; else its error, after ending all waits for this rank's flags. */
int rd_gpu_watch(struct rd_gpu *gpu);

/* Waits for a flag. peer: the rank whose silence has a bound; -1: no bound. The bound counts from
   when streams have reached the call `number`; 0: from now. */
int rd_gpu_watch_flag(
	struct rd_gpu *gpu, const uint32_t *flag, uint32_t value, int peer, uint32_t number);

/* After a failure: waits until no peer is at work in this rank's buffers, at most
   RD_WATCH_LEAVE_MS. */
void rd_gpu_await_peers(struct rd_gpu *gpu);

/* A rank number from the host flags, which peers can write; this rank where it is out of range. */
int rd_gpu_watch_rank(const struct rd_gpu *gpu, uint32_t number);

/* Ends the comm because of a silent peer. */
int rd_gpu_watch_report(struct rd_gpu *gpu, int64_t waited_ms, int peer, const char *where);

/* A round of a wait for a flag, from 0: the first ones yield, later ones sleep. */
void rd_gpu_watch_pause(const uint32_t *flag, uint32_t value, int round);

/* Waits until the call of this number has finished, or failed. */
void rd_gpu_await(const struct rd_gpu *gpu, uint32_t number);

/* After a failure, again and again until all calls are done: ends the waits of streams. *since_ns:
   0 at first. It has a bound: then the gpu is broken, and its memory is not given back. */
void rd_gpu_end_waits(struct rd_gpu *gpu, int64_t *since_ns);

#endif
