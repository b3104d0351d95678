/*
 * Devices: what Rondo needs of a machine's GPUs, as one table of operations. CUDA's driver, found
 * at run time, has one (cuda/cuda.c). The host has none: where rd_device() is NULL, all memory is
 * the host's.
 *
 * Work on a stream runs in the stream's order; stream functions only queue, and return at
 * once. Streams are void *: a CUstream. Pointers to device memory are plain
 * addresses that belong to one device, and may be used on others that can reach it (peer()).
 *
 * Functions that return int return 0 or an error with its reason recorded. Any thread may call any.
 *
 * A function blocks only where its comment says so: it waits for the work that the comment names,
 * or "may wait" for all work of the device, where CUDA's documentation leaves that open. The first
 * use of a device opens it: that loads the driver and the kernels, and takes seconds.
 */
#ifndef RD_DEVICE_H
#define RD_DEVICE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "device/small_work.h"
#include "device/steps.h"
#include "device/transfer_work.h"
#include "device/work.h"

/* An allocation of device memory. */
struct rd_allocation {
	int device;
	uint64_t id; /* of this process's allocations; memory that is freed takes its id along */
	char *base;
	size_t size;
};

/* A handle by which another process maps an allocation: plain bytes. */
struct rd_handle {
	unsigned char bytes[64];
};

enum rd_capture {
	RD_CAPTURE_NONE, /* 0 */
	RD_CAPTURE_ACTIVE,
	/* The program did what a capture forbids: all work is refused until it ends the capture. */
	RD_CAPTURE_INVALIDATED,
};

#define RD_FLAG_OPS 64

/* A flag lies in memory from share(). The stream writes it; or the stream, and not the caller,
   waits until (int32_t)(*flag - value) >= 0. */
struct rd_flag_op {
	uint32_t *flag;
	uint32_t value;
	bool waits;
};

struct rd_device_ops {
	const char *name;

	/* Devices that can be used; 0 with the reason of why there are none. The first call waits
	   for the driver to load. */
	int (*count)(void);
	/* The device that is current to the calling thread; -1: none. */
	int (*current)(void);
	/* Where its PCI card sits, as in struct rd_place. */
	uint32_t (*pci)(int device);
	/* Whether processes that share this device run at the same time (CUDA: MPS is active). */
	bool (*shared_at_once)(int device);

	/* Whether `at` lies in device memory, and in which. False also for what has been freed. */
	bool (*find)(const void *at, struct rd_allocation *allocation);
	/* Host memory that is not pinned: a copy from or to it waits for what is queued before it,
	   and no other thread can queue anything on the device until then. */
	bool (*pageable)(const void *at);
	/* Host memory that kernels of this device may access, at the same addresses (CUDA: pinned).
	 */
	bool (*pinned)(int device, const void *at, size_t size);
	/* Waits until the memory is zeroed; may wait. */
	int (*alloc)(int device, size_t size, void **memory);
	int (*free)(void *memory); /* may wait */
	/* For another process to map the allocation that begins at base: fails for memory that has
	   no such handle. import() maps one into this process, drop() lets go of it; both may
	   wait. */
	int (*export)(const void *base, struct rd_handle *handle);
	int (*import)(int device, const struct rd_handle *handle, void **base, size_t *size);
	void (*drop)(int device, void *base);
	/* A dma-buf, by which NICs access device memory: `base` lies *offset bytes into it. The
	   descriptor is the caller's. RONDO_UNSUPPORTED: the driver has none. */
	int (*dmabuf)(void *base, size_t size, int *fd, size_t *offset);
	/* From now on `device` addresses the memory of `other`; fails where it cannot. May wait. */
	int (*peer)(int device, int other);
	/* From now on devices address this host memory (whole pages), at the same addresses. Both
	   may wait for work of `device`, and of no other: a peer may wait there for this rank. */
	int (*share)(int device, void *memory, size_t size);
	void (*unshare)(int device, void *memory);

	int (*stream_create)(int device, void **stream); /* may wait */
	/* Both wait for the work that is queued on the stream. */
	void (*stream_destroy)(int device, void *stream);
	int (*stream_synchronize)(int device, void *stream);
	/* Whether all that was queued is done. Not while it captures. */
	int (*stream_query)(int device, void *stream, bool *done);
	/* Checks that a program's stream is of this device. */
	int (*stream_check)(int device, void *stream);
	/* Whether the stream only records work, to be run later (a CUDA graph). */
	enum rd_capture (*stream_captures)(void *stream);
	/* From now on other threads' captures forbid the calling thread nothing. */
	void (*ignore_captures)(void);
	/* Graphs, for rondo-bench; programs use CUDA's own functions. Work that the calling thread
	   queues on the stream is recorded, up to graph_end(). Launches run it, in the order of
	   their streams. *graph is NULL after an error. */
	int (*graph_begin)(int device, void *stream);
	int (*graph_end)(int device, void *stream, void **graph);
	int (*graph_launch)(int device, void *stream, void *graph);
	/* Once its launches are over. NULL is allowed. */
	void (*graph_destroy)(int device, void *graph);
	/* Later work on `stream` waits for the work that is queued on `earlier` now. */
	int (*stream_follow)(int device, void *stream, void *earlier);

	/* Points in streams' work, and the time between two of them, by the device's clock. */
	int (*event_create)(int device, void **event);
	void (*event_destroy)(int device, void *event); /* once it has been reached, if recorded */
	int (*event_record)(int device, void *stream, void *event);
	/* Waits until both events, recorded before, have been reached. */
	int (*event_elapsed)(int device, void *from, void *to, double *us);

	/* Queues up to RD_FLAG_OPS operations on flags, in this order. */
	int (*post_flags)(int device, void *stream, const struct rd_flag_op *ops, int count);
	/* Any memory. Where a side is host memory that is pageable(), or both sides are host
	   memory, it waits for the work queued on the stream, and for the copy. */
	int (*copy)(int device, void *stream, void *to, const void *from, size_t size);
	/* The same on a stream of the device's own, in which nothing waits for another stream.
	   Returns when the memory is copied. */
	int (*copy_now)(int device, void *to, const void *from, size_t size);
	/* Kernels: wait for room where the device's queue is full. */
	int (*run)(int device, void *stream, const struct rd_work *work);
	int (*run_small)(int device, void *stream, const struct rd_small_work *work);
	int (*run_steps)(int device, void *stream, const struct rd_steps *steps);
	int (*run_transfers)(int device, void *stream, const struct rd_transfer_work *work);
	/* Blocks of a fused kernel that the device can hold at once. */
	int (*blocks)(int device);
};

/* RONDO_INVALID, with the reason after the function's name, where a capture of the stream has been
   invalidated. */
int rd_device_check_capture(const struct rd_device_ops *ops, void *stream, const char *function);

static inline int rd_stream_write(
	const struct rd_device_ops *ops, int device, void *stream, uint32_t *flag, uint32_t value)
{
	return ops->post_flags(
		device, stream, &(struct rd_flag_op){ .flag = flag, .value = value }, 1);
}

static inline int rd_stream_wait(
	const struct rd_device_ops *ops, int device, void *stream, uint32_t *flag, uint32_t value)
{
	return ops->post_flags(device, stream,
		&(struct rd_flag_op){ .flag = flag, .value = value, .waits = true }, 1);
}

#if RONDO_HAS_CUDA
extern const struct rd_device_ops rd_cuda;
#endif

/*
 * This process's devices, by RONDO_DEVICE. NULL with the reason where there are none. load: loads
 * the driver. Without it, only a driver that the program has started counts: a CUDA driver starts
 * slowly, and programs on host memory do not need it.
 */
const struct rd_device_ops *rd_device(bool load);

/* Whether this process may have device memory: it has devices, or has started a CUDA driver. */
bool rd_device_met(void);

/* RONDO_SETTING where the text of RONDO_DEVICE is invalid. */
int rd_device_check(const char *text);

/* Whether `at` is device memory. Where rd_device() is NULL (this build may have no CUDA), the
   allocation's device is -1 and its other fields are not set. */
bool rd_is_device_memory(const void *at, struct rd_allocation *allocation);

#endif
