/*
 * The kernels of work: work_run.h for each element type. Here is how they combine and copy
 * elements by direct access, 16 bytes at a time.
 *
 * A peer's data is read only after its flag has been read and a fence passed, and never through the
 * read-only cache: no pointer here is __restrict__.
 */
#include "device/cuda/block.cuh"
#include "device/cuda/copy.cuh"
#include "device/cuda/reduce.cuh"

/* The sums of the elements in 8 bytes. */
template <typename T> struct sums {
	typename element<T>::sum of[8 / sizeof(T)];
};

#define SUMS struct sums<T>

#include "device/work_run.h"

static __device__ bool is_aligned(const void *at)
{
	return (uint64_t)at % 16 == 0;
}

static __device__ bool all_aligned(
	const struct rd_work &work, const struct block &block, const struct rd_work_step &step)
{
	bool aligned = true;

#pragma unroll 1
	for (int rank = 0; rank < work.size; rank++) {
		aligned &= is_aligned(block.in[rank] + step.in_at);
		if (step.peer < 0 || step.peer == rank)
			aligned &= is_aligned(block.out[rank] + step.out_at);
	}
	return aligned;
}

/* To all who want it: what is written is not read again here. */
template <int at_once, typename T>
static __device__ void spread(const struct rd_work &work, const struct block &block,
	const struct rd_work_step &step, size_t first, size_t stride,
	const vector<T> (&made)[at_once])
{
	int from = step.peer < 0 ? 0 : step.peer, to = step.peer < 0 ? work.size : step.peer + 1;

#pragma unroll 1
	for (int rank = from; rank < to; rank++) {
		uint4 *out = (uint4 *)(block.out[rank] + step.out_at);

#pragma unroll
		for (int k = 0; k < at_once; k++)
			__stcs(out + first + k * stride, made[k].words);
	}
}

/* 8 bytes as elements. */
template <typename T> union typed_unit {
	uint64_t bits;
	T elements[8 / sizeof(T)];
};

/* Rounded to the type at once, as in host memory. */
template <typename T> static __device__ T scaled(T value, uint64_t factor)
{
	using E = element<T>;
	typed_unit<T> by = { factor };

	return E::narrow(multiply(E::widen(value), E::widen(by.elements[0])));
}

template <int at_once, typename T>
static __device__ void load(vector<T> (&got)[at_once], const struct rd_work &work,
	const struct block &block, const struct rd_work_step &step, int rank, size_t first,
	size_t stride)
{
	const uint4 *in = (const uint4 *)(block.in[rank] + step.in_at);

#pragma unroll
	for (int k = 0; k < at_once; k++)
		got[k].words = __ldcs(in + first + k * stride);
	if (!work.scales)
		return;
#pragma unroll
	for (int k = 0; k < at_once; k++)
#pragma unroll
		for (int e = 0; e < (int)(16 / sizeof(T)); e++)
			got[k].elements[e] = scaled(got[k].elements[e], block.factors[rank]);
}

/* `at_once` vectors of a rank are on their way together: with all threads of a multiprocessor, that
   is more than its memory's delay needs. */
template <typename T, int at_once>
static __device__ void combine_vectors(const struct rd_work &work, const struct block &block,
	const struct rd_work_step &step, size_t first, size_t stride, int divide_by)
{
	using E = element<T>;
	typename E::sum sums[at_once][16 / sizeof(T)];
	vector<T> got[at_once];

	load<at_once>(got, work, block, step, 0, first, stride);
#pragma unroll
	for (int k = 0; k < at_once; k++)
#pragma unroll
		for (int e = 0; e < (int)(16 / sizeof(T)); e++)
			sums[k][e] = E::widen(got[k].elements[e]);
#pragma unroll 1
	for (int rank = 1; rank < work.size; rank++) {
		load<at_once>(got, work, block, step, rank, first, stride);
		add_up_by<T>(work.op, sums, got);
	}
#pragma unroll
	for (int k = 0; k < at_once; k++)
#pragma unroll
		for (int e = 0; e < (int)(16 / sizeof(T)); e++)
			got[k].elements[e] = finish<T>(sums[k][e], divide_by);
	spread<at_once>(work, block, step, first, stride, got);
}

template <typename T>
static __device__ typename element<T>::sum load_element(const struct rd_work &work,
	const struct block &block, const struct rd_work_step &step, int rank, size_t at)
{
	T value = ((const T *)(block.in[rank] + step.in_at))[at];

	return element<T>::widen(work.scales ? scaled(value, block.factors[rank]) : value);
}

template <typename T>
static __device__ void combine_element(const struct rd_work &work, const struct block &block,
	const struct rd_work_step &step, size_t at, int divide_by)
{
	typename element<T>::sum sum = load_element<T>(work, block, step, 0, at);

#pragma unroll 1
	for (int rank = 1; rank < work.size; rank++)
		sum = combine_any<T>(work.op, sum, load_element<T>(work, block, step, rank, at));
#pragma unroll 1
	for (int rank = 0; rank < work.size; rank++)
		if (step.peer < 0 || step.peer == rank)
			((T *)(block.out[rank] + step.out_at))[at] = finish<T>(sum, divide_by);
}

template <typename T>
static __device__ void combine(const struct rd_work *work_at, const struct block *block_at,
	const struct rd_work_step *step_at, struct elements<T>)
{
	const struct rd_work &work = *work_at;
	const struct block &block = *block_at;
	const struct rd_work_step &step = *step_at;
	constexpr int at_once = sizeof(T) >= 4 ? 4 : 2;
	size_t thread = (size_t)blockIdx.x * blockDim.x + threadIdx.x;
	size_t stride = (size_t)gridDim.x * blockDim.x;
	int divide_by = step.last && work.op == RONDO_AVG ? work.size : 1;
	size_t vectors = 0, at = thread;

	if (all_aligned(work, block, step))
		vectors = step.count * sizeof(T) / 16;
#pragma unroll 1
	for (; at + (at_once - 1) * stride < vectors; at += at_once * stride)
		combine_vectors<T, at_once>(work, block, step, at, stride, divide_by);
#pragma unroll 1
	for (; at < vectors; at += stride)
		combine_vectors<T, 1>(work, block, step, at, stride, divide_by);
#pragma unroll 1
	for (at = vectors * 16 / sizeof(T) + thread; at < step.count; at += stride)
		combine_element<T>(work, block, step, at, divide_by);
}

static __device__ void swap_bytes(
	char *here, const char *theirs, char *there, const char *ours, size_t size)
{
	size_t thread = (size_t)blockIdx.x * blockDim.x + threadIdx.x;
	size_t stride = (size_t)gridDim.x * blockDim.x;
	bool aligned =
		is_aligned(theirs) && is_aligned(ours) && is_aligned(here) && is_aligned(there);
	size_t vectors = aligned ? size / 16 : 0, at = thread;

	for (; at + stride < vectors; at += 2 * stride) {
		uint4 incoming[2], outgoing[2];

#pragma unroll
		for (int k = 0; k < 2; k++) {
			incoming[k] = __ldcs((const uint4 *)theirs + at + k * stride);
			outgoing[k] = __ldcs((const uint4 *)ours + at + k * stride);
		}
#pragma unroll
		for (int k = 0; k < 2; k++) {
			__stcs((uint4 *)here + at + k * stride, incoming[k]);
			__stcs((uint4 *)there + at + k * stride, outgoing[k]);
		}
	}
	if (at < vectors) {
		uint4 incoming = __ldcs((const uint4 *)theirs + at),
		      outgoing = __ldcs((const uint4 *)ours + at);

		__stcs((uint4 *)here + at, incoming);
		__stcs((uint4 *)there + at, outgoing);
	}
	for (at = vectors * 16 + thread; at < size; at += stride) {
		char incoming = theirs[at], outgoing = ours[at];

		here[at] = incoming;
		there[at] = outgoing;
	}
}

/* ---- Units of small calls ------------------------------------------------------------------- */

template <typename T>
static __device__ union unit scale_unit(
	const struct rd_work *, union unit unit, uint64_t factor, struct elements<T>)
{
	typed_unit<T> typed = { unit.bits };

	for (int e = 0; e < (int)(8 / sizeof(T)); e++)
		typed.elements[e] = scaled(typed.elements[e], factor);
	unit.bits = typed.bits;
	return unit;
}

template <typename T>
static __device__ void add_unit(const struct rd_work *work, struct sums<T> *sums, int rank,
	union unit unit, struct elements<T>)
{
	typed_unit<T> typed = { unit.bits };

	for (int e = 0; e < (int)(8 / sizeof(T)); e++) {
		auto value = element<T>::widen(typed.elements[e]);

		sums->of[e] = rank == 0 ? value : combine_any<T>(work->op, sums->of[e], value);
	}
}

template <typename T>
static __device__ union unit finish_unit(
	const struct rd_work *work, const struct sums<T> *sums, struct elements<T>)
{
	int divide_by = work->op == RONDO_AVG ? work->size : 1;
	typed_unit<T> typed = { 0 };

	for (int e = 0; e < (int)(8 / sizeof(T)); e++)
		typed.elements[e] = finish<T>(sums->of[e], divide_by);
	return { typed.bits };
}

/* ---- The kernels ---------------------------------------------------------------------------- */

#define KERNEL(name, type) \
	extern "C" __global__ void __launch_bounds__(THREADS, 2) \
		rondo_work_##name(const __grid_constant__ struct rd_work work) \
	{ \
		BLOCK_MEMORY(struct block, block); \
\
		run_block(&work, &block, elements<type>()); \
	}

RD_ELEMENTS(KERNEL)
