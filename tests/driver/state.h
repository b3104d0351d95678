/* The state that the parts of the emulated driver share. */
#ifndef STATE_H
#define STATE_H

#include <cuda.h>
#include <pthread.h>
#include <stdbool.h>

#include "device/device.h"
#include "device/emulated/gpus.h"
#include "device/emulated/stream.h"
#include "emulated_driver.h"

#define EXPORT __attribute__((visibility("default")))

struct CUctx_st {
	int device;
	pthread_mutex_t lock; /* a thread that queues work takes it for a moment */
};

/* Whether the device of EMULATED_LAUNCHES is lost. */
bool is_lost(void);
/* Counts a kernel for EMULATED_LAUNCHES. */
void count_launch(void);
/* CUDA_ERROR_LAUNCH_FAILED on a lost device; else success where err is 0. */
CUresult done(int err);

CUcontext context_of(int device);
/* The calling thread's context, and its device; NULL and -1: none is current. */
CUcontext current_context(void);
int current(void);
/* Ten times the device's compute capability: 90 for 9.0. */
int capability(CUdevice device);

/* ---- Pinned memory (pinned.c) -------------------------------------------------------------- */

CUresult pinned_add(void *memory, size_t size);
CUresult pinned_remove(void *memory);
bool is_pinned(const void *at);

/* ---- Locks (locks.c) ----------------------------------------------------------------------- */

void stream_add(CUstream stream, int priority);
void stream_remove(CUstream stream);
/* False: there is no such stream. */
bool stream_priority(CUstream stream, int *priority);

/* Before something is queued: waits while another thread loads code, or waits for the device with
   the context's lock. */
void wait_for_locks(void);
/* Until all that is queued on the stream has run; false: it takes too long. */
bool stream_drain(CUstream stream);
/* Holds the context's lock until the device has nothing to do; false: it takes too long. */
bool wait_for_device(void);

#endif
