/* How all threads of some blocks move bytes, up to 16 of them at a time. */
#ifndef RD_COPY_CUH
#define RD_COPY_CUH

#include "device/cuda/block.cuh"

/* Whole units between two edges, which go byte by byte. A unit is aligned in all buffers. */
struct cut {
	size_t unit; /* bytes: 16, 8, 4, 2, or 1 where all is edge */
	size_t head, units;
};

/* Cuts `size` bytes from `at`. `differ`: the bits in which other buffers' addresses differ from it.
 */
static inline __device__ struct cut cut_bytes(uint64_t at, uint64_t differ, size_t size)
{
	size_t unit = (differ | 16) & (0 - (differ | 16)), head = (0 - at) % unit;

	if (unit == 1 || head > size)
		head = size;
	return { unit, head, (size - head) / unit };
}

static inline __device__ size_t edge_bytes(const struct cut &cut, size_t size)
{
	return size - cut.units * cut.unit;
}

/* The edges' byte of this number, counted in the buffer. */
static inline __device__ size_t edge_at(const struct cut &cut, size_t number)
{
	return number < cut.head ? number : number + cut.units * cut.unit;
}

/* Calls `run` with a value of the unit's type, unless that is a byte. */
template <typename Run> static __device__ void by_unit(size_t unit, Run run)
{
	if (unit == 16)
		run(uint4());
	else if (unit == 8)
		run((unsigned long long)0);
	else if (unit == 4)
		run((unsigned)0);
	else if (unit == 2)
		run((unsigned short)0);
}

/* A thread has four units in flight. */
template <typename U>
static __device__ void copy_units(U *out, const U *in, size_t units, size_t at, size_t stride)
{
	for (; at + 3 * stride < units; at += 4 * stride) {
		U got[4];

#pragma unroll
		for (int k = 0; k < 4; k++)
			got[k] = __ldcs(in + at + k * stride);
#pragma unroll
		for (int k = 0; k < 4; k++)
			__stcs(out + at + k * stride, got[k]);
	}
	for (; at < units; at += stride)
		__stcs(out + at, __ldcs(in + at));
}

/* The calling thread's share of a copy by `blocks` blocks. */
static inline __device__ void copy_bytes(char *to, const char *from, size_t size, int blocks)
{
	size_t thread = (size_t)blockIdx.x * blockDim.x + threadIdx.x;
	size_t stride = (size_t)blocks * blockDim.x;
	struct cut cut = cut_bytes((uint64_t)to, (uint64_t)to ^ (uint64_t)from, size);

	if (to == from)
		return;
	by_unit(cut.unit, [&](auto unit) {
		using U = decltype(unit);

		copy_units((U *)(to + cut.head), (const U *)(from + cut.head), cut.units, thread,
			stride);
	});
	for (size_t i = thread; i < edge_bytes(cut, size); i += stride)
		to[edge_at(cut, i)] = from[edge_at(cut, i)];
}

#endif
