/* How all threads of some blocks copy bytes, 16 of them at a time. */
#ifndef RD_COPY_CUH
#define RD_COPY_CUH

#include "device/cuda/block.cuh"

/* Bytes before the first whole vector; all where the two are not aligned alike. */
static inline __device__ size_t head_of(const char *to, const char *from, size_t size)
{
	size_t head = (16 - (uint64_t)to % 16) % 16;

	return (uint64_t)to % 16 != (uint64_t)from % 16 || head > size ? size : head;
}

/* The calling thread's share of a copy by `blocks` blocks. A thread has four vectors in flight. */
static inline __device__ void copy_bytes(char *to, const char *from, size_t size, int blocks)
{
	size_t thread = (size_t)blockIdx.x * blockDim.x + threadIdx.x;
	size_t stride = (size_t)blocks * blockDim.x, head = head_of(to, from, size);
	size_t vectors = (size - head) / 16, at = thread;
	const uint4 *in = (const uint4 *)(from + head);
	uint4 *out = (uint4 *)(to + head);

	if (to == from)
		return;
	for (; at + 3 * stride < vectors; at += 4 * stride) {
		uint4 got[4];

#pragma unroll
		for (int k = 0; k < 4; k++)
			got[k] = __ldcs(in + at + k * stride);
#pragma unroll
		for (int k = 0; k < 4; k++)
			__stcs(out + at + k * stride, got[k]);
	}
	for (; at < vectors; at += stride)
		__stcs(out + at, __ldcs(in + at));
	for (at = thread; at < head; at += stride)
		to[at] = from[at];
	for (at = head + vectors * 16 + thread; at < size; at += stride)
		to[at] = from[at];
}

#endif
