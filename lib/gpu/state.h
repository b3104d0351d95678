/*
 * A gpu: the part of a comm that runs calls on device memory. Each rank has
 *   - host flags, which all ranks map (peers.h): peers write their progress there, and the rank
 *     announces its buffers;
 *   - device flags, the same in device memory, for kernels;
 *   - a progress thread, which does the host's part of calls (progress.h).
 *
 * The caller queues all of a call on its stream when it issues the call (queue.h). From then on the
 * stream waits for flags alone, and no call to the driver is needed for it to go on: the driver may
 * be locked by a thread of the program that waits for this very stream. The progress thread ends
 * the stream's waits by plain stores:
 *   - by direct access, where all ranks map each other's device memory, it fills in the addresses
 *     of peers' buffers, which the kernel reads (direct.h);
 *   - elsewhere it makes the call in host memory, between copies that the stream makes (staging.h).
 * Where kernels exchange messages, a call is one launch (messages.h). So is a small call by direct
 * access, and a call that a graph captures: these kernels wait for each other by themselves. The
 * order of the ranks' kernels is counted in the device flags, so that replays need no host.
 * Transfers concern two ranks alone (transfers.h).
 *
 * Ranks that are threads of one process, on one device, meet in the host while they queue a call
 * (sharers.h).
 *
 * All ranks decide alike, by the cards that they gathered when the gpu was made.
 */
#ifndef RD_GPU_STATE_H
#define RD_GPU_STATE_H

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

/* Calls of a comm that may be queued on streams; a further one waits until the first is done. */
#define RD_RUN_AHEAD 128

/* Streams read these also after the comm is gone: they are never freed, and count on. `ready`: the
   last call that the streams have reached; `finished`: the last that is done. */
struct rd_stream_flags {
	_Alignas(64) uint32_t ready;
	_Alignas(64) uint32_t finished;
	bool taken;
};

/* A call between `ready` and `finished`: for which peers its stream may wait. */
enum rd_queued_kind { RD_QUEUED_DIRECT, RD_QUEUED_TRANSFERS, RD_QUEUED_STAGED };

struct rd_queued {
	enum rd_queued_kind kind;
	uint32_t announced; /* RD_QUEUED_DIRECT */
};

/* Pinned memory that this rank's kernels and streams read, and no other rank maps. */
struct rd_own_flags {
	_Alignas(64) struct rd_buffer_addresses addresses[RD_RUN_AHEAD]; /* by number of the call */
	_Alignas(64) uint32_t mapped; /* the last call whose addresses are there */
};

struct rd_host_flags;
struct rd_progress_thread;
struct rd_messages;
struct rd_sharers;
struct rd_stage;
struct rd_transfer_list;

/* One for inputs, one for outputs. */
#define RD_BOUNCES 2
/* Allocations of a rank that its peers keep mapped. The last places are for bounces alone. */
#define RD_EXPORTS (64 + RD_BOUNCES)

/* An allocation of this rank, for its peers. */
struct rd_export {
	uint64_t id;
	char *base;
	size_t size;
	uint32_t generation; /* 0: free; no two of a rank have the same */
	uint32_t used; /* number of the last call that did */
	bool kept; /* in some graph: as long as the gpu */
	struct rd_handle handle;
};

/* A peer's allocation, mapped here. */
struct rd_import {
	uint32_t generation; /* 0: none */
	char *base;
	size_t size;
	uint32_t wanted; /* a generation to map (exports.h); 0: none */
	struct rd_handle handle; /* of the wanted one */
};

/* Device memory in place of a buffer that has no handle for other processes. */
struct rd_bounce {
	void *memory;
	size_t size;
	bool logged;
};

struct rd_gpu {
	struct rondo_comm *comm;
	const struct rd_device_ops *ops;
	int device;
	enum rd_kernel kernel;
	bool one_process;
	bool shared; /* some ranks are threads of one process on one device */
	bool spins; /* kernels of small calls wait for each other */
	_Atomic bool broken; /* a call was queued in part: its stream may never end */
	_Atomic int64_t released_ns; /* when the waits for peers' flags were ended; 0: not yet */
	struct rd_messages *messages; /* RD_KERNEL_MESSAGES; else NULL */
	struct rd_sharers *sharers; /* NULL: no other rank of this process is on this device */
	int blocks; /* of a kernel that waits for peers, at most */
	void *stream; /* the gpu's own: for what is no call, and parts of staged calls */
	struct rd_device_stream *device_stream; /* for calls on no stream, made when first needed */
	struct rd_device_stream *last; /* of the last call; NULL: none yet */
	bool launched; /* the last call was, and is not between `ready` and `finished` */
	struct rd_async_error *async_error;
	struct rd_stream_flags *stream_flags;
	struct rd_own_flags *own_flags;
	uint32_t number; /* of the last call that was queued between `ready` and `finished` */
	struct rd_queued queued[RD_RUN_AHEAD]; /* by number */
	struct rd_host_flags *host_flags, *peer_flags[RD_WORK_RANKS];
	struct rd_device_flags *device_flags, *peer_device_flags[RD_WORK_RANKS];
	bool same_process[RD_WORK_RANKS];
	struct rd_export exports[RD_EXPORTS];
	uint32_t generations;
	struct rd_import imports[RD_WORK_RANKS][RD_EXPORTS]; /* by peer, and its export */
	pthread_mutex_t imports_lock;
	_Atomic bool wants_imports; /* some import has a generation `wanted` */
	struct rd_bounce bounces[RD_BOUNCES];
	struct rd_plan *plans[RD_COLLECTIVE_COUNT][RD_WORK_RANKS]; /* by root */
	uint32_t sent[RD_WORK_RANKS], received[RD_WORK_RANKS]; /* offers, by peer (transfers.h) */
	struct rd_transfer_list *transfer_lists; /* of long groups */
	/* While the caller queues transfers: 1 + the peer for whose offer, or room for one, it
	   waits; 0: for none. The progress thread reads it. */
	uint32_t awaited;
	uint32_t announced; /* calls that this rank announced to its peers (direct.h) */
	struct rd_stage *stage; /* NULL: nothing has been staged yet */
	struct rd_progress_thread *progress;
};

/* Whether calls go from device to device; all ranks' host flags are then mapped. */
static inline bool rd_gpu_goes_directly(const struct rd_gpu *gpu)
{
	return gpu->kernel == RD_KERNEL_STEPPED || gpu->kernel == RD_KERNEL_FUSED;
}

#endif
