/*
 * A gpu: the part of a comm that runs calls on device memory. Each rank has
 *   - host flags, which all ranks map (peers.h): peers write their progress there, and the rank
 *     announces its buffers' addresses;
 *   - device flags, the same in device memory, for kernels;
 *   - a stream, and a progress thread, which does the host's part of calls (progress.h).
 *
 * On its stream a call is two flags: the stream writes `ready` when it reaches the call, and waits
 * for `finished`. In between the progress thread
 *   - where all ranks map each other's device memory, announces its buffers, maps those of peers,
 *     and queues the work on the gpu's stream (direct.h): between two barriers (stepped), or as one
 *     kernel that synchronizes by itself (fused);
 *   - elsewhere copies to host memory, makes the call there, and copies back (staging.h).
 *
 * Where all ranks are threads of one process and fused, kernels exchange the addresses themselves:
 * a call is one launch on the user's stream, without the progress thread. The same holds where
 * kernels exchange messages (messages.h), for which not all ranks need to map each other's memory.
 * Transfers concern two ranks alone (transfers.h).
 *
 * A graph can capture a call that is one launch, and a fused call among processes. For the latter
 * the progress threads exchange the addresses once, when it is captured. The order of the ranks'
 * kernels is counted in the device flags, so that replays need no host.
 *
 * All ranks decide alike, by the cards that they gathered when the gpu was made.
 */
#ifndef RD_GPU_H
#define RD_GPU_H

#include "comm/comm.h"
#include "comm/run.h"
#include "device/device_stream.h"
#include "device/work.h"

/* X(name, text) */
#define RD_KERNELS(X) \
	X(RD_KERNEL_AUTO, "auto") \
	X(RD_KERNEL_STAGED, "staged") \
	X(RD_KERNEL_STEPPED, "stepped") \
	X(RD_KERNEL_FUSED, "fused") \
	X(RD_KERNEL_MESSAGES, "messages")

enum rd_kernel {
#define RD_KERNEL_ENUM(name, text) name,
	RD_KERNELS(RD_KERNEL_ENUM)
#undef RD_KERNEL_ENUM
		RD_KERNEL_COUNT
};

/* Calls of a comm that may be queued on streams; a further one waits. */
#define RD_READY 256

/* Streams read these also after the comm is gone: they are never freed, and count on. */
struct rd_stream_flags {
	_Alignas(64) uint32_t ready[RD_READY]; /* by number: streams write in no order */
	_Alignas(64) uint32_t finished;
	bool taken;
};

struct rd_host_flags;
struct rd_progress_thread;
struct rd_messages;
struct rd_transfer_list;

#define RD_IMPORTS 64

/* A peer's allocation, mapped here. */
struct rd_import {
	int peer;
	uint64_t id, address; /* of its base, there */
	char *base;
	size_t size;
	uint64_t used; /* when last */
	bool kept; /* in some graph: as long as the gpu */
};

struct rd_gpu {
	struct rondo_comm *comm;
	const struct rd_device_ops *ops;
	int device;
	enum rd_kernel kernel;
	bool one_process; /* fused, and the caller launches */
	struct rd_messages *messages; /* RD_KERNEL_MESSAGES: the caller launches; else NULL */
	int blocks; /* of a fused kernel, at most */
	void *stream; /* the progress thread's */
	void *chain; /* where callers launch: orders what they launch on their streams; else NULL */
	struct rd_device_stream *device_stream; /* for calls on no stream, made when first needed */
	struct rd_async_error *async_error;
	struct rd_stream_flags *stream_flags;
	uint32_t number; /* of the last call that the progress thread received */
	uint32_t marker;
	struct rd_host_flags *host_flags, *peer_flags[RD_WORK_RANKS];
	struct rd_device_flags *device_flags, *peer_device_flags[RD_WORK_RANKS];
	bool same_process[RD_WORK_RANKS];
	struct rd_import imports[RD_IMPORTS];
	uint64_t imports_used;
	struct rd_plan *plans[RD_COLLECTIVE_COUNT][RD_WORK_RANKS]; /* by root */
	uint32_t sent[RD_WORK_RANKS], received[RD_WORK_RANKS]; /* offers, by peer (transfers.h) */
	struct rd_transfer_list *transfer_lists; /* of long groups */
	uint32_t announced; /* calls that this rank announced to its peers (direct.h) */
	struct rd_progress_thread *progress;
};

static inline uint32_t *rd_ready(struct rd_stream_flags *stream_flags, uint32_t number)
{
	return &stream_flags->ready[number % RD_READY];
}

/* Whether calls go from device to device; all ranks' host flags are then mapped. */
static inline bool rd_gpu_goes_directly(const struct rd_gpu *gpu)
{
	return gpu->kernel == RD_KERNEL_STEPPED || gpu->kernel == RD_KERNEL_FUSED;
}

/* The device of a comm's calls, from its settings; -1: none. */
int rd_gpu_device(const struct rd_settings *settings, int *device, uint32_t *pci);

/*
 * Once the comm is up: the same on all ranks. Where a rank has no device, comm->gpu stays NULL
 * and the comm handles host memory alone.
 */
int rd_gpu_create(struct rondo_comm *comm);
/* Waits for the calls under way (when the comm has failed, lets their streams go), and ends the
   progress thread, which needs the comm's control connection. */
void rd_gpu_finish(struct rd_gpu *gpu);
void rd_gpu_destroy(struct rd_gpu *gpu);

#endif
