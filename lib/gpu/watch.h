/*
 * Watching, in the progress thread: whether the comm still stands, and waits that end when it fails
 * or a peer is silent for too long.
 */
#ifndef RD_WATCH_H
#define RD_WATCH_H

#include "gpu/gpu.h"

/* Bound of one sleep for a flag in ns: a device that writes a flag wakes no thread. */
#define RD_WATCH_SLEEP_NS 50000

/* 0 while the comm stands; else its error, after ending all waits for this rank's flags. */
int rd_gpu_watch(struct rd_gpu *gpu);

/* Waits for a flag. peer: the rank whose silence has a bound; -1: no bound. */
int rd_gpu_watch_flag(struct rd_gpu *gpu, const uint32_t *flag, uint32_t value, int peer);

/* A rank number from the host flags, which peers can write; this rank where it is out of range. */
int rd_gpu_watch_rank(const struct rd_gpu *gpu, uint32_t number);

/* Ends the comm because of a silent peer. */
int rd_gpu_watch_report(struct rd_gpu *gpu, int64_t waited_ms, int peer, const char *where);

/* A round of a wait for a flag, from 0: the first ones yield, later ones sleep. */
void rd_gpu_watch_pause(const uint32_t *flag, uint32_t value, int round);

/* Waits until the gpu's stream has done what is queued on it; or an error of the comm's. */
int rd_gpu_drain(struct rd_gpu *gpu);
/* The same after a failure, with a bound. */
void rd_gpu_drain_failed(struct rd_gpu *gpu);

#endif
