/* The state that the parts of the emulated driver share. */
#ifndef STATE_H
#define STATE_H

#include <cuda.h>
#include <pthread.h>
#include <stdbool.h>

#include "emulated_driver.h"
#include "queues.h"

#define DEVICES_MAX 32

struct CUctx_st {
	int device;
	pthread_mutex_t lock;
	struct queues queues;
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

/* Queues a call, without an item; 0, or an error (worker_run()). */
int queue_call(CUstream stream, CUhostFn function, void *argument);

/* ---- Pinned memory (pinned.c) -------------------------------------------------------------- */

/* Memory of which a part is pinned already is an error. */
CUresult pinned_add(void *memory, size_t size);
CUresult pinned_remove(void *memory);
bool is_pinned(const void *at);

/* ---- Other processes' memory (ipc.c) ------------------------------------------------------- */

CUresult ipc_open(int device, const CUipcMemHandle *handle, void **at);
CUresult ipc_close(int device, void *at);

/* Whether it is from cuMemAllocAsync() (pools.c). */
bool is_pooled(CUdeviceptr memory);

/* ---- Streams and locks (locks.c) ----------------------------------------------------------- */

/* The bound of a wait with a lock held. */
#define WAIT_WITH_LOCK_MS 5000

CUresult stream_add(CUstream stream, int priority);
void stream_remove(CUstream stream);
/* Its hardware queue, and priority. False: there is no such stream. */
bool stream_find(CUstream stream, int *queue, int *priority);

/* The current context's, once no thread loads code. */
void lock_context(void);
void unlock_context(void);
/* Until all that is queued on the stream has run; false: it takes too long. */
bool stream_drain(CUstream stream);
/* Holds the context's lock until its streams have nothing to do; false: it takes too long. */
bool wait_for_device(void);

#endif
