/*
 * CUDA's primitives for the kernels' shared sources (flags_run.h, work_run.h, steps_run.h,
 * transfer_run.h). tests/support/driver/machine.h replaces machine.cuh, so that tests run the
 * kernels on threads.
 */
#ifndef RD_BLOCK_CUH
#define RD_BLOCK_CUH

#include <limits.h>

#ifndef RONDO_MACHINE
#define RONDO_MACHINE "machine.cuh"
#endif
#include RONDO_MACHINE

#define ON_DEVICE __device__
#define THREAD ((int)threadIdx.x)
#define THREADS_HERE ((int)blockDim.x)
#define BLOCK ((int)blockIdx.x)
#define BLOCKS(count) (count)
#define ALL_BLOCKS ((int)gridDim.x)
#define SYNC_BLOCK() __syncthreads()
#define TYPED template <typename T>
#define ELEMENTS struct elements<T>
#define UNROLL _Pragma("unroll")
#define KEEP_LOOP _Pragma("unroll 1")
/* A block has a thread for each peer. */
#define NEXT_PEER(peer) INT_MAX
/* A block that polls disturbs no other. */
#define REST(polls) ((void)(polls))

/* A kernel's element type. */
template <typename T> struct elements {
	static constexpr size_t size = sizeof(T);
};

#include "device/flags_run.h"

#endif
