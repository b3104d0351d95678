/*
 * The kernels of work and of small work: work_run.h and small_run.h for each element type. Here is
 * how they combine and copy elements by direct access, 16 bytes at a time.
 *
 * A peer's data is read only after its flag has been read and a fence passed, and never through the
 * read-only cache: no pointer here is __restrict__.
 */
#include "device/cuda/block.cuh"
#include "device/cuda/copy.cuh"
#include "device/cuda/reduce.cuh"

/* The sums of the elements in 8 bytes: [0], and of scaled elements, for a mean: [1]. */
template <typename T> struct sums {
	typename element<T>::sum of[2][8 / sizeof(T)];
};

#define SUMS struct sums<T>

#include "device/small_run.h"
#include "device/work_run.h"

/* By whole vectors where all buffers lie alike, else by elements. */
template <typename T>
static __device__ struct cut cut_elements(
	const struct rd_work &work, const struct block &block, const struct rd_work_step &step)
{
	uint64_t at = (uint64_t)(block.in[0] + step.in_at), differ = at % sizeof(T);
	size_t size = step.count * sizeof(T);

#pragma unroll 1
	for (int rank = 0; rank < work.size; rank++) {
		differ |= at ^ (uint64_t)(block.in[rank] + step.in_at);
		if (step.peer < 0 || step.peer == rank)
			differ |= at ^ (uint64_t)(block.out[rank] + step.out_at);
	}
	if (differ % 16 != 0)
		return { 1, size, 0 };
	return cut_bytes(at, differ, size);
}

/* To all who want it: what is written is not read again here. */
template <int at_once, typename T>
static __device__ void store(const struct rd_work &work, const struct block &block,
	const struct rd_work_step &step, size_t head, size_t first, size_t stride,
	const vector<T> (&made)[at_once])
{
	int from = step.peer < 0 ? 0 : step.peer, to = step.peer < 0 ? work.size : step.peer + 1;

#pragma unroll 1
	for (int rank = from; rank < to; rank++) {
		uint4 *out = (uint4 *)(block.out[rank] + step.out_at + head);

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
template <typename T> static __device__ T scaled(T value, typename element<T>::sum factor)
{
	return element<T>::narrow(multiply(element<T>::widen(value), factor));
}

template <typename T> static __device__ typename element<T>::sum factor_of(uint64_t bits)
{
	typed_unit<T> factor = { bits };

	return element<T>::widen(factor.elements[0]);
}

template <int at_once, typename T>
static __device__ void load(vector<T> (&got)[at_once], const struct rd_work &work,
	const struct block &block, const struct rd_work_step &step, int rank, size_t head,
	size_t first, size_t stride)
{
	const uint4 *in = (const uint4 *)(block.in[rank] + step.in_at + head);
	typename element<T>::sum factor;

#pragma unroll
	for (int k = 0; k < at_once; k++)
		got[k].words = __ldcs(in + first + k * stride);
	if (!work.scales)
		return;
	factor = factor_of<T>(block.factors[rank]);
#pragma unroll
	for (int k = 0; k < at_once; k++)
#pragma unroll
		for (int e = 0; e < (int)(16 / sizeof(T)); e++)
			got[k].elements[e] = scaled(got[k].elements[e], factor);
}

template <typename Sum, int at_once, int count>
static __device__ bool all_finite(const Sum (&sums)[at_once][count])
{
	bool all = true;

#pragma unroll
	for (int k = 0; k < at_once; k++)
#pragma unroll
		for (int e = 0; e < count; e++)
			all = all && is_finite(sums[k][e]);
	return all;
}

/* `again`: the sum for a mean was not finite, and is made of scaled elements. */
template <typename T>
static __device__ typename element<T>::sum widened_input(const struct rd_work &work,
	const struct block &block, const struct rd_work_step &step, int rank, size_t at, bool again)
{
	using Sum = typename element<T>::sum;
	T value = load_element<T>(block.in[rank] + step.in_at + at);

	if (work.scales)
		value = scaled(value, factor_of<T>(block.factors[rank]));
	return multiply(element<T>::widen(value), again ? scale_for<Sum>(work.size) : (Sum)1);
}

template <typename T>
static __device__ typename element<T>::sum sum_inputs(const struct rd_work &work,
	const struct block &block, const struct rd_work_step &step, size_t at, bool again)
{
	typename element<T>::sum sum = widened_input<T>(work, block, step, 0, at, again);

#pragma unroll 1
	for (int rank = 1; rank < work.size; rank++)
		sum = combine_any<T>(
			work.op, sum, widened_input<T>(work, block, step, rank, at, again));
	return sum;
}

/* `at`: the element's first byte in the step. */
template <typename T>
static __device__ void combine_element(const struct rd_work &work, const struct block &block,
	const struct rd_work_step &step, size_t at, int divide_by)
{
	using Sum = typename element<T>::sum;
	Sum sum = sum_inputs<T>(work, block, step, at, false), by = divide_by;

	if (may_overflow<T> && divide_by > 1 && !is_finite(sum)) {
		sum = sum_inputs<T>(work, block, step, at, true);
		by = divide_by * scale_for<Sum>(work.size);
	}
#pragma unroll 1
	for (int rank = 0; rank < work.size; rank++)
		if (step.peer < 0 || step.peer == rank)
			store_element(block.out[rank] + step.out_at + at, finish<T>(sum, by));
}

/* `head`: bytes before the vectors. `at_once` vectors of a rank are on their way together: with all
   threads of a multiprocessor, that is more than its memory's delay needs. */
template <typename T, int at_once>
static __device__ void combine_vectors(const struct rd_work &work, const struct block &block,
	const struct rd_work_step &step, size_t head, size_t first, size_t stride, int divide_by)
{
	using Sum = typename element<T>::sum;
	constexpr int count = 16 / sizeof(T);
	Sum sums[at_once][count];
	vector<T> got[at_once];

	load<at_once>(got, work, block, step, 0, head, first, stride);
#pragma unroll
	for (int k = 0; k < at_once; k++)
		widen_all(sums[k], got[k]);
#pragma unroll 1
	for (int rank = 1; rank < work.size; rank++) {
		load<at_once>(got, work, block, step, rank, head, first, stride);
		add_up_by<T>(work.op, sums, got);
	}
	if (may_overflow<T> && divide_by > 1 && !all_finite(sums)) {
#pragma unroll 1
		for (int i = 0; i < at_once * count; i++)
			combine_element<T>(work, block, step,
				head + (first + i / count * stride) * 16 + i % count * sizeof(T),
				divide_by);
		return;
	}
#pragma unroll
	for (int k = 0; k < at_once; k++)
		finish_all(got[k], sums[k], (Sum)divide_by);
	store<at_once>(work, block, step, head, first, stride, got);
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
	struct cut cut = cut_elements<T>(work, block, step);
	size_t at = thread;

#pragma unroll 1
	for (; at + (at_once - 1) * stride < cut.units; at += at_once * stride)
		combine_vectors<T, at_once>(work, block, step, cut.head, at, stride, divide_by);
#pragma unroll 1
	for (; at < cut.units; at += stride)
		combine_vectors<T, 1>(work, block, step, cut.head, at, stride, divide_by);
#pragma unroll 1
	for (at = thread * sizeof(T); at < edge_bytes(cut, step.count * sizeof(T));
		at += stride * sizeof(T))
		combine_element<T>(work, block, step, edge_at(cut, at), divide_by);
}

/* ---- Moves --------------------------------------------------------------------------------- */

template <typename U, int at_once>
static __device__ void spread_units(const struct rd_work &work, const struct block &block,
	const struct rd_work_step &step, size_t head, size_t at, size_t stride)
{
	const U *in = (const U *)(block.in[step.peer] + step.in_at + head);
	U got[at_once];

#pragma unroll
	for (int k = 0; k < at_once; k++)
		got[k] = __ldcs(in + at + k * stride);
#pragma unroll 1
	for (int rank = first_to(&work, &step); rank < end_to(&work, &step); rank++) {
		U *out = (U *)(place_at(&work, &block, &step, rank) + head);

		if (out == in)
			continue;
#pragma unroll
		for (int k = 0; k < at_once; k++)
			__stcs(out + at + k * stride, got[k]);
	}
}

static __device__ void spread_bytes(const struct rd_work *work_at, const struct block *block_at,
	const struct rd_work_step *step_at, size_t size)
{
	const struct rd_work &work = *work_at;
	const struct block &block = *block_at;
	const struct rd_work_step &step = *step_at;
	size_t thread = (size_t)blockIdx.x * blockDim.x + threadIdx.x;
	size_t stride = (size_t)gridDim.x * blockDim.x;
	uint64_t from = (uint64_t)(block.in[step.peer] + step.in_at), differ = 0;

#pragma unroll 1
	for (int rank = first_to(&work, &step); rank < end_to(&work, &step); rank++)
		differ |= from ^ (uint64_t)place_at(&work, &block, &step, rank);

	struct cut cut = cut_bytes(from, differ, size);

	by_unit(cut.unit, [&](auto unit) {
		using U = decltype(unit);
		size_t at = thread;

#pragma unroll 1
		for (; at + 3 * stride < cut.units; at += 4 * stride)
			spread_units<U, 4>(work, block, step, cut.head, at, stride);
#pragma unroll 1
		for (; at < cut.units; at += stride)
			spread_units<U, 1>(work, block, step, cut.head, at, stride);
	});
#pragma unroll 1
	for (size_t i = thread; i < edge_bytes(cut, size); i += stride)
		spread_units<unsigned char, 1>(work, block, step, 0, edge_at(cut, i), 0);
}

template <typename U, int at_once>
static __device__ void swap_units(
	U *here, const U *theirs, U *there, const U *ours, size_t at, size_t stride)
{
	U incoming[at_once], outgoing[at_once];

#pragma unroll
	for (int k = 0; k < at_once; k++) {
		incoming[k] = __ldcs(theirs + at + k * stride);
		outgoing[k] = __ldcs(ours + at + k * stride);
	}
#pragma unroll
	for (int k = 0; k < at_once; k++) {
		__stcs(here + at + k * stride, incoming[k]);
		__stcs(there + at + k * stride, outgoing[k]);
	}
}

static __device__ void swap_bytes(
	char *here, const char *theirs, char *there, const char *ours, size_t size)
{
	size_t thread = (size_t)blockIdx.x * blockDim.x + threadIdx.x;
	size_t stride = (size_t)gridDim.x * blockDim.x;
	uint64_t from = (uint64_t)theirs;
	uint64_t differ =
		(from ^ (uint64_t)here) | (from ^ (uint64_t)there) | (from ^ (uint64_t)ours);
	struct cut cut = cut_bytes(from, differ, size);

	by_unit(cut.unit, [&](auto unit) {
		using U = decltype(unit);
		U *to = (U *)(here + cut.head), *far = (U *)(there + cut.head);
		const U *in = (const U *)(theirs + cut.head), *out = (const U *)(ours + cut.head);
		size_t at = thread;

#pragma unroll 1
		for (; at + stride < cut.units; at += 2 * stride)
			swap_units<U, 2>(to, in, far, out, at, stride);
		if (at < cut.units)
			swap_units<U, 1>(to, in, far, out, at, stride);
	});
#pragma unroll 1
	for (size_t i = thread; i < edge_bytes(cut, size); i += stride)
		swap_units<unsigned char, 1>((unsigned char *)here, (const unsigned char *)theirs,
			(unsigned char *)there, (const unsigned char *)ours, edge_at(cut, i), 0);
}

/* ---- Units of small work -------------------------------------------------------------------- */

template <typename T>
static __device__ union unit scale_unit(
	const struct rd_small_work *, union unit unit, uint64_t factor, struct elements<T>)
{
	typed_unit<T> typed = { unit.bits };

	for (int e = 0; e < (int)(8 / sizeof(T)); e++)
		typed.elements[e] = scaled(typed.elements[e], factor_of<T>(factor));
	unit.bits = typed.bits;
	return unit;
}

template <typename T>
static __device__ void add_unit(const struct rd_small_work *work, struct sums<T> *sums, int rank,
	union unit unit, struct elements<T>)
{
	using Sum = typename element<T>::sum;
	typed_unit<T> typed = { unit.bits };
	bool is_mean = may_overflow<T> && work->op == RONDO_AVG;
	Sum scale = is_mean ? scale_for<Sum>(work->size) : 1;

	for (int e = 0; e < (int)(8 / sizeof(T)); e++) {
		Sum value = element<T>::widen(typed.elements[e]);
		Sum &sum = sums->of[0][e];

		sum = rank == 0 ? value : combine_any<T>(work->op, sum, value);
		if (is_mean)
			sums->of[1][e] = add(sums->of[1][e], multiply(value, scale));
	}
}

template <typename T>
static __device__ union unit finish_unit(
	const struct rd_small_work *work, const struct sums<T> *sums, struct elements<T>)
{
	using Sum = typename element<T>::sum;
	Sum by = work->op == RONDO_AVG ? work->size : 1;
	Sum scaled_by = by * scale_for<Sum>(work->size);
	typed_unit<T> typed = { 0 };

	for (int e = 0; e < (int)(8 / sizeof(T)); e++) {
		Sum sum = sums->of[0][e], scaled_sum = sums->of[1][e];
		bool fits = !may_overflow<T> || by == 1 || is_finite(sum);

		typed.elements[e] = finish<T>(fits ? sum : scaled_sum, fits ? by : scaled_by);
	}
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

#define SMALL_KERNEL(name, type) \
	extern "C" __global__ void __launch_bounds__(THREADS, 2) \
		rondo_small_##name(const __grid_constant__ struct rd_small_work work) \
	{ \
		run_small(&work, elements<type>()); \
	}

RD_ELEMENTS(SMALL_KERNEL)
