/*
 * Kernels that do work (lib/device/work.h): one for each type, which combines shares of all ranks'
 * buffers and fetches blocks, by direct access, 16 bytes at a time.
 *
 * Fused kernels have their barriers inside: block b of a rank meets block b of every peer, by flags
 * in the desks. All blocks of all ranks must find room on their devices at once; the gpu sees to
 * that. A peer's data is read only after its flag has been seen and a fence passed, and never
 * through the read-only cache: no pointer here is __restrict__.
 *
 * Small calls have no barrier: each rank stores what a peer needs of it into that peer's ll_buffer,
 * 8 bytes of data between two copies of the epoch in one 16-byte store, so that data and flag come
 * together; and makes its output of what it has got. All collectives are that; they differ in who
 * has something for whom, and in whether it is combined. A signature goes from all to all, so that
 * two LL buffers in turn are enough: who is in call e + 2 has heard in call e + 1 from all, who had
 * finished call e. The idea is NCCL's "LL" protocol.
 */
#include "device/cuda/copy.cuh"
#include "device/cuda/reduce.cuh"
#include "device/cuda/words.cuh"
#include "device/work.h"

/* ---- What the block knows ------------------------------------------------------------------ */

struct block {
	const char *in[RD_WORK_RANKS];
	char *out[RD_WORK_RANKS];
	uint64_t factors[RD_WORK_RANKS];
	uint32_t epoch;
	int failed;
};

/* ---- Barriers ------------------------------------------------------------------------------ */

static __device__ void announce(const struct rd_work &work, int peer, uint32_t epoch)
{
	struct rd_device_entry *entry =
		&work.peer_device_flags[peer]->entered[work.rank][blockIdx.x];
	uint64_t in = (uint64_t)work.in[work.rank] + work.in_for[peer];
	uint64_t out = (uint64_t)work.out[work.rank] + work.out_for[peer];
	uint64_t factor = work.factors[work.rank];

	store_words(&entry->in_low, (uint32_t)in, epoch, (uint32_t)(in >> 32), epoch);
	store_words(&entry->out_low, (uint32_t)out, epoch, (uint32_t)(out >> 32), epoch);
	store_words(&entry->factor_low, (uint32_t)factor, epoch, (uint32_t)(factor >> 32), epoch);
	store_words(&entry->signature, work.signatures[peer], epoch, 0, epoch);
}

static __device__ bool meet(const struct rd_work &work, struct block &block, int peer)
{
	const struct rd_device_entry *entry =
		&work.peer_device_flags[work.rank]->entered[peer][blockIdx.x];
	struct patience patience = { 0, 0 };
	uint4 in, out, factor, rest;

	do {
		in = load_words(&entry->in_low);
		out = load_words(&entry->out_low);
		factor = load_words(&entry->factor_low);
		rest = load_words(&entry->signature);
		if (is_over(work, patience, peer))
			return false;
	} while (!has_come(in, block.epoch) || !has_come(out, block.epoch) ||
		 !has_come(factor, block.epoch) || !has_come(rest, block.epoch));
	if (rest.x != work.signatures[peer]) {
		say_mismatch(work, peer);
		return false;
	}
	if (work.exchanges) {
		block.in[peer] = (const char *)((uint64_t)in.z << 32 | in.x);
		block.out[peer] = (char *)((uint64_t)out.z << 32 | out.x);
		block.factors[peer] = (uint64_t)factor.z << 32 | factor.x;
	}
	return true;
}

/* One thread a peer. What earlier kernels on the stream wrote goes before our flags, by the fence.
 */
static __device__ void enter(const struct rd_work &work, struct block &block)
{
	int peer = threadIdx.x;

	if (peer < work.size && peer != work.rank) {
		__threadfence_system();
		announce(work, peer, block.epoch);
		if (!meet(work, block, peer))
			block.failed = 1;
		__threadfence_system();
	}
	__syncthreads();
}

static __device__ void leave(const struct rd_work &work, struct block &block)
{
	int peer = threadIdx.x;
	struct patience patience = { 0, 0 };

	__syncthreads();
	if (peer < work.size && peer != work.rank) {
		volatile uint32_t *theirs =
			&work.peer_device_flags[peer]->left[work.rank][blockIdx.x];
		volatile uint32_t *ours =
			&work.peer_device_flags[work.rank]->left[peer][blockIdx.x];

		__threadfence_system();
		*theirs = block.epoch;
		while (*ours != block.epoch && !is_over(work, patience, peer))
			;
		__threadfence_system();
	}
	__syncthreads();
}

/* ---- Steps --------------------------------------------------------------------------------- */

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

/* 8 bytes of data, as they travel. */
template <typename T> union unit {
	uint64_t bits;
	unsigned char bytes[8];
	T elements[8 / sizeof(T)];
};

/* Rounded to the type at once, as in host memory. */
template <typename T> static __device__ T scaled(T value, uint64_t factor)
{
	using E = element<T>;
	unit<T> by = { factor };

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
static __device__ void combine(
	const struct rd_work &work, const struct block &block, const struct rd_work_step &step)
{
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

static __device__ void fetch(const struct rd_work &work, const struct block &block,
	const struct rd_work_step &step, size_t size)
{
	copy_bytes(block.out[work.rank] + step.out_at, block.in[step.peer] + step.in_at, size,
		gridDim.x);
}

static __device__ void swap(const struct rd_work &work, const struct block &block,
	const struct rd_work_step &step, size_t size)
{
	const char *theirs = block.in[step.peer] + step.in_at,
		   *ours = block.in[work.rank] + step.ours_at;
	char *here = block.out[work.rank] + step.out_at,
	     *there = block.out[step.peer] + step.theirs_at;
	size_t thread = (size_t)blockIdx.x * blockDim.x + threadIdx.x;
	size_t stride = (size_t)gridDim.x * blockDim.x;
	bool aligned =
		is_aligned(theirs) && is_aligned(ours) && is_aligned(here) && is_aligned(there);
	size_t vectors = aligned ? size / 16 : 0, at = thread;

	for (; at + stride < vectors; at += 2 * stride) {
		uint4 come[2], go[2];

#pragma unroll
		for (int k = 0; k < 2; k++) {
			come[k] = __ldcs((const uint4 *)theirs + at + k * stride);
			go[k] = __ldcs((const uint4 *)ours + at + k * stride);
		}
#pragma unroll
		for (int k = 0; k < 2; k++) {
			__stcs((uint4 *)here + at + k * stride, come[k]);
			__stcs((uint4 *)there + at + k * stride, go[k]);
		}
	}
	if (at < vectors) {
		uint4 come = __ldcs((const uint4 *)theirs + at),
		      go = __ldcs((const uint4 *)ours + at);

		__stcs((uint4 *)here + at, come);
		__stcs((uint4 *)there + at, go);
	}
	for (at = vectors * 16 + thread; at < size; at += stride) {
		char come = theirs[at], go = ours[at];

		here[at] = come;
		there[at] = go;
	}
}

template <typename T>
static __device__ void run_step(
	const struct rd_work &work, const struct block &block, const struct rd_work_step &step)
{
	if (step.kind == RD_WORK_FETCH)
		fetch(work, block, step, step.count * sizeof(T));
	else if (step.kind == RD_WORK_SWAP)
		swap(work, block, step, step.count * sizeof(T));
	else
		combine<T>(work, block, step);
}

/* ---- Small calls ---------------------------------------------------------------------------- */

static __device__ void post(uint32_t *ll_buffer, size_t at, uint64_t bits, uint32_t epoch)
{
	store_words(ll_buffer + at * 4, (uint32_t)bits, epoch, (uint32_t)(bits >> 32), epoch);
}

static __device__ bool collect(const struct rd_work &work, const uint32_t *ll_buffer, size_t at,
	int peer, uint32_t epoch, uint64_t &bits)
{
	struct patience patience = { 0, 0 };
	uint4 words = load_words(ll_buffer + at * 4);

	while (!has_come(words, epoch)) {
		if (is_over(work, patience, peer))
			return false;
		words = load_words(ll_buffer + at * 4);
	}
	bits = (uint64_t)words.z << 32 | words.x;
	return true;
}

/* Of a small call. The signature is for all. */
static __device__ bool has_data(const struct rd_work &work, int from, int to)
{
	return (work.from < 0 || work.from == from) && (work.to < 0 || work.to == to);
}

/* What we have for a rank: unit 0 is the signature, the data follows. */
template <typename T>
static __device__ unit<T> unit_for(const struct rd_work &work, int rank, size_t at)
{
	const char *in = work.in[work.rank] + rank * work.in_stride;
	size_t size = work.count * sizeof(T), first = (at - 1) * 8;
	unit<T> made = { 0 };

	if (at == 0)
		made.bits = work.signatures[rank];
#pragma unroll
	for (int i = 0; at > 0 && i < 8; i++)
		if (first + i < size)
			made.bytes[i] = in[first + i];
	for (int e = 0; at > 0 && work.scales && e < (int)(8 / sizeof(T)); e++)
		made.elements[e] = scaled(made.elements[e], work.factors[work.rank]);
	return made;
}

/* Into our output, where what comes of that rank belongs. */
template <typename T>
static __device__ void keep(const struct rd_work &work, int rank, size_t at, const unit<T> &got)
{
	char *out = work.out[work.rank] + rank * work.out_stride;
	size_t size = work.count * sizeof(T), first = (at - 1) * 8;

#pragma unroll
	for (int i = 0; i < 8; i++)
		if (first + i < size)
			out[first + i] = got.bytes[i];
}

/* In rank order, as everywhere: the same bits for all. In place, no other thread wants what is
   written here: a thread has its unit of every block. */
template <typename T>
static __device__ bool make_unit(const struct rd_work &work, uint32_t epoch, size_t at)
{
	using sum = typename element<T>::sum;
	constexpr int width = 8 / sizeof(T);
	sum sums[width] = {};
	unit<T> got;

#pragma unroll 1
	for (int rank = 0; rank < work.size; rank++) {
		if (at > 0 && !has_data(work, rank, work.rank))
			continue;
		if (rank == work.rank)
			got = unit_for<T>(work, rank, at);
		else if (!collect(work,
				 work.peer_device_flags[work.rank]->ll_buffer[epoch & 1][rank], at,
				 rank, epoch, got.bits))
			return false;
		if (at == 0 && got.bits != work.signatures[rank]) {
			say_mismatch(work, rank);
			return false;
		}
		if (at > 0 && !work.combines)
			keep(work, rank, at, got);
		for (int e = 0; work.combines && e < width; e++) {
			sum value = element<T>::widen(got.elements[e]);

			sums[e] = rank == 0 ? value : combine_any<T>(work.op, sums[e], value);
		}
	}
	if (at == 0 || !work.combines || !has_data(work, 0, work.rank))
		return true;
	for (int e = 0; e < width; e++)
		got.elements[e] = finish<T>(sums[e], work.op == RONDO_AVG ? work.size : 1);
	keep(work, 0, at, got);
	return true;
}

template <typename T> static __device__ void run_small(const struct rd_work &work, uint32_t epoch)
{
	size_t units = (work.count * sizeof(T) + 7) / 8;
	bool orders = work.count == 0; /* a barrier: also what ranks did to each other's memory */

	if (orders)
		__threadfence_system();
#pragma unroll 1
	for (size_t at = threadIdx.x; at <= units; at += blockDim.x) {
#pragma unroll 1
		for (int peer = 0; peer < work.size; peer++)
			if (peer != work.rank && (at == 0 || has_data(work, work.rank, peer)))
				post(work.peer_device_flags[peer]->ll_buffer[epoch & 1][work.rank],
					at, unit_for<T>(work, peer, at).bits, epoch);
		if (!make_unit<T>(work, epoch, at))
			return;
	}
	if (orders)
		__threadfence_system();
}

/* ---- The whole ----------------------------------------------------------------------------- */

/* The first thread's, before any other looks. */
static __device__ void begin(const struct rd_work &work, struct block &block)
{
	block.failed = !work.fused && *(volatile uint32_t *)&work.abort_flag->stop;
	block.epoch = work.fused ? work.peer_device_flags[work.rank]->epochs[blockIdx.x] + 1 : 0;
}

template <typename T> static __device__ void run(const struct rd_work &work)
{
	BLOCK_MEMORY(struct block, block);

	if (threadIdx.x == 0)
		begin(work, block);
	if (threadIdx.x < RD_WORK_RANKS) {
		block.in[threadIdx.x] = work.in[threadIdx.x];
		block.out[threadIdx.x] = work.out[threadIdx.x];
		block.factors[threadIdx.x] = work.factors[threadIdx.x];
	}
	__syncthreads();
	if (work.small) {
		run_small<T>(work, block.epoch);
	} else {
		if (work.fused)
			enter(work, block);
#pragma unroll 1
		for (int i = 0; i < work.step_count && !block.failed; i++)
			run_step<T>(work, block, work.steps[i]);
		if (work.fused && !block.failed)
			leave(work, block);
	}
	__syncthreads();
	if (work.fused && threadIdx.x == 0)
		work.peer_device_flags[work.rank]->epochs[blockIdx.x] = block.epoch;
}

#define KERNEL(name, type) \
	extern "C" __global__ void __launch_bounds__(THREADS, 2) \
		rondo_work_##name(const __grid_constant__ struct rd_work work) \
	{ \
		run<type>(work); \
	}

RD_ELEMENTS(KERNEL)
