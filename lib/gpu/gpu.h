/*
 * A gpu: what a comm has for calls in device memory. Each rank has a host flags of host memory that all
 * ranks map, where it is told how far its peers are, and says where its buffers lie; a device_flags, which
 * is the same in device memory, for kernels; a stream of its own; and a progress thread, the thread that
 * does what of such a call is the host's to do (progress.h).
 *
 * A call on a stream is, for the stream, two flags: `ready` is written when the stream has come to
 * the call, `finished` is waited for. In between the progress thread
 *   - where all ranks reach each other's device memory: tells the peers where its buffers lie, maps
 *     theirs, and queues the work between two barriers on the gpu's stream (stepped), or as one
 *     kernel that has its own (fused);
 *   - elsewhere copies to host memory, makes the call there, and copies back (staged).
 * Where all ranks are threads of one process and fused, no progress thread is needed: kernels tell each other
 * the addresses, and the call is one launch on the user's stream. So it is where kernels exchange
 * messages (messages.h), for which not all ranks need to reach each other. Transfers are the
 * business of two ranks alone (transfers.h).
 *
 * What is one launch may be captured in a graph, and fused calls among processes too. The progress threads
 * then exchange what the kernel must know when it is captured, once, and its launch is on the
 * user's stream; what orders the ranks' kernels is counted in the device flags, so that replays need no
 * host.
 *
 * All ranks decide alike: by what they told each other when the gpu was made.
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

/* Where a rank's buffer lies: what its peers need to map it. id 0: it cannot be reached. */
struct rd_buffer_location {
	uint64_t id;
	uint64_t address, offset, size; /* of the buffer; in its allocation; of the allocation */
	struct rd_handle handle;
};

/* What a rank tells its peers of one call. */
struct rd_announcement {
	uint32_t number;
	struct rd_signature signature;
	struct rd_buffer_location in, out;
	uint64_t factor; /* of a premultiplied sum */
	uint32_t reachable; /* not 0: all that others address of its buffers */
	/* Where two ranks alone know: what is there for each peer, in bytes. */
	struct {
		uint64_t in_at, out_at, size;
	} gives[RD_WORK_RANKS];
};

/* What a rank tells the one that it sends to, when its stream has come so far: the bytes may be
   read from now on. The next one only when this one has been taken. */
struct rd_offer {
	uint32_t number; /* of what this rank has sent that one on devices */
	struct rd_signature signature;
	struct rd_buffer_location in;
	uint32_t reachable; /* not 0: yes */
};

/* Written by peers, but for abort flag, announcements and offers, which are this rank's. A rank
   announcements call n + 2 only when all have posted n + 1, and so have read n: two announcements
   suffice. */
struct rd_host_flags {
	_Alignas(64) uint32_t entered[RD_WORK_RANKS];
	_Alignas(64) uint32_t left[RD_WORK_RANKS];
	_Alignas(64) struct rd_abort_flag abort_flag;
	_Alignas(64) uint32_t marker; /* how far the gpu's own stream is */
	_Alignas(64) uint32_t check; /* what is written into peers' device flags to try them */
	_Alignas(64) struct rd_announcement announcements[2];
	_Alignas(64) uint32_t taken[RD_WORK_RANKS]; /* of what was sent to each */
	_Alignas(64) struct rd_offer offers[RD_WORK_RANKS]; /* to each */
};

/* Calls of a comm that may be under way on streams; more wait to be made. */
#define RD_READY 256

/* Streams look at these also when the comm is gone: they are never freed, and count on. */
struct rd_stream_flags {
	_Alignas(64) uint32_t ready[RD_READY]; /* by number: streams write in no order */
	_Alignas(64) uint32_t finished;
	bool taken;
};

struct rd_progress_thread;
struct rd_messages;
struct rd_roll;

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
	uint32_t number; /* of the last call handed to the progress thread */
	uint32_t marker;
	struct rd_host_flags *host_flags, *peer_flags[RD_WORK_RANKS];
	struct rd_device_flags *device_flags, *peer_device_flags[RD_WORK_RANKS];
	bool same_process[RD_WORK_RANKS];
	struct rd_import imports[RD_IMPORTS];
	uint64_t imports_used;
	struct rd_plan *plans[RD_COLLECTIVE_COUNT][RD_WORK_RANKS]; /* by root */
	uint32_t sent[RD_WORK_RANKS], received[RD_WORK_RANKS]; /* offers, by peer (transfers.h) */
	struct rd_roll *rolls; /* long groups of transfers */
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

/* RONDO_SETTING where the text of RONDO_KERNEL is none. */
int rd_kernel_read(const char *text, enum rd_kernel *kernel);

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

/* The stream that a call was made on. */
struct rd_call_stream {
	const struct rd_device_stream *device_stream; /* NULL: a host stream, or none */
	bool is_host;
	bool in_group; /* the call is made in an open group */
};

/*
 * Whether a call's buffers are device memory, and it is for the gpu to run; an error where they
 * are not what the comm and the stream can use.
 */
int rd_gpu_takes(struct rondo_comm *comm, const struct rd_call *call,
	const struct rd_call_stream *stream, bool *takes);
/* Runs a checked call on no stream: now. Takes over its terms, as rd_gpu_submit() does. */
int rd_gpu_run(struct rd_task *task);
/* Queues checked calls, of one comm or several. */
int rd_gpu_submit(struct rd_device_stream *device_stream, struct rd_task *tasks, int count);

/* ---- For transfers --------------------------------------------------------------------------- */

/* One kernel: what of these is not NULL. */
struct rd_launch {
	const struct rd_work *work;
	const struct rd_steps *steps;
	const struct rd_transfer_work *transfers;
	uint32_t *done, number; /* done: what is written when it has run, or NULL */
};

/* Queues it on the caller's stream, after what earlier calls on other streams have queued. */
int rd_gpu_launch(struct rd_gpu *gpu, struct rd_device_stream *device_stream, const struct rd_launch *launch);

/* ---- For messages, while the gpu is made --------------------------------------------------- */

/* What each rank has of so many bytes, by rank, on all ranks. */
int rd_gpu_gather(struct rd_gpu *gpu, const void *mine, void *all, size_t size);
/* Whether it is so on all ranks. */
int rd_gpu_agree(struct rd_gpu *gpu, bool mine, bool *all);

/* ---- For the progress thread ------------------------------------------------------------------------- */

/* The work of a call; false: it is to be staged. Addresses are still missing. */
bool rd_gpu_work(struct rd_gpu *gpu, const struct rd_call *call, struct rd_work *work);
/* Fills in what a fused kernel needs beyond its steps. */
void rd_gpu_fuse(struct rd_gpu *gpu, const struct rd_call *call, struct rd_work *work);
/* Bytes of a rank's buffers that others address in this call; of a peer's, from where it says that
   those for us begin. */
size_t rd_gpu_in_size(const struct rd_call *call, int rank);
size_t rd_gpu_out_size(const struct rd_call *call, int rank);
/* Where a buffer of ours lies. */
void rd_gpu_describe(struct rd_gpu *gpu, const void *at, size_t size, struct rd_buffer_location *location);
/* A peer's buffer as it is addressed here; NULL with the reason. location: a copy that the peer cannot
   write to, for it is checked before it is used. May wait for the gpu's stream.
   keep: it stays so as long as the gpu. */
char *rd_gpu_reach(
	struct rd_gpu *gpu, int peer, const struct rd_buffer_location *location, size_t size, bool keep);

#endif
