/*
 * Kernels that execute plans of messages (lib/device/steps.h): one for each type, whose blocks are
 * the channels. What a block does is said in lib/device/steps_run.h; here is how it hauls elements,
 * 16 bytes at a time.
 *
 * All blocks of all ranks must find room on their devices at once; the gpu sees to that. A
 * message's bytes are written into the peer's memory by all threads, then flagged by one: the
 * barrier and a fence of the whole system lie between, and again between the peer's seeing the flag
 * and its reading the bytes. These are read past the first-level cache, and no pointer is
 * __restrict__: the same slot is written again and again.
 */
#include "device/cuda/block.cuh"
#include "device/cuda/reduce.cuh"
#include "device/steps_run.h"

/* ---- Elements ------------------------------------------------------------------------------ */

/* Elements before the first vector; all of them where the pointers do not lie alike. */
template <typename T> static __device__ size_t head_of(const struct haul &haul)
{
	uint64_t at = (uint64_t)haul.a % 16;
	size_t head = (16 - at) % 16 / sizeof(T);

	if ((haul.b && (uint64_t)haul.b % 16 != at) ||
		(haul.into && (uint64_t)haul.into % 16 != at) ||
		(haul.out && (uint64_t)haul.out % 16 != at) || at % sizeof(T) != 0)
		return haul.count;
	return head < haul.count ? head : haul.count;
}

/* A barrier's message has no element, a chunk that is only passed on no place here. */
static __device__ bool moves_nothing(const struct haul &haul)
{
	return haul.count == 0 || (!haul.out && (!haul.into || (haul.into == haul.a && !haul.b)));
}

template <typename T>
static __device__ void haul_element(
	const struct rd_steps &steps, const struct haul &haul, size_t at)
{
	T value = ((const T *)haul.a)[at];

	if (haul.b)
		value = finish<T>(combine_any<T>(steps.op, element<T>::widen(value),
					  element<T>::widen(((const T *)haul.b)[at])),
			haul.divide_by);
	if (haul.into)
		((T *)haul.into)[at] = value;
	if (haul.out)
		((T *)haul.out)[at] = value;
}

/* got = got op ours. */
template <typename T, int at_once>
static __device__ void combine_with(const struct rd_steps &steps, vector<T> (&got)[at_once],
	const vector<T> (&ours)[at_once], int divide_by)
{
	using E = element<T>;
	typename E::sum sums[at_once][16 / sizeof(T)];

#pragma unroll
	for (int k = 0; k < at_once; k++)
#pragma unroll
		for (int e = 0; e < (int)(16 / sizeof(T)); e++)
			sums[k][e] = E::widen(got[k].elements[e]);
	add_up_by<T>(steps.op, sums, ours);
#pragma unroll
	for (int k = 0; k < at_once; k++)
#pragma unroll
		for (int e = 0; e < (int)(16 / sizeof(T)); e++)
			got[k].elements[e] = finish<T>(sums[k][e], divide_by);
}

/* `begin`: bytes before the vectors. All loads of a thread are on their way together. */
template <typename T, int at_once>
static __device__ void haul_vectors(const struct rd_steps &steps, const struct haul &haul,
	size_t begin, size_t first, size_t stride)
{
	vector<T> got[at_once], ours[at_once];

#pragma unroll
	for (int k = 0; k < at_once; k++)
		got[k].words = __ldcg((const uint4 *)(haul.a + begin) + first + k * stride);
	if (haul.b) {
#pragma unroll
		for (int k = 0; k < at_once; k++)
			ours[k].words =
				__ldcg((const uint4 *)(haul.b + begin) + first + k * stride);
		combine_with<T, at_once>(steps, got, ours, haul.divide_by);
	}
	if (haul.into)
#pragma unroll
		for (int k = 0; k < at_once; k++)
			__stcg((uint4 *)(haul.into + begin) + first + k * stride, got[k].words);
	if (haul.out)
#pragma unroll
		for (int k = 0; k < at_once; k++)
			__stcg((uint4 *)(haul.out + begin) + first + k * stride, got[k].words);
}

template <typename T>
static __device__ void haul_elements(const struct rd_steps &steps, const struct haul &haul)
{
	/* As many as registers hold: elements of a byte are 16 sums a vector. */
	constexpr int at_once = sizeof(T) >= 4 ? 4 : sizeof(T);
	size_t stride = blockDim.x, at = threadIdx.x;

	if (moves_nothing(haul))
		return;

	size_t head = head_of<T>(haul), begin = head * sizeof(T);
	size_t vectors = (haul.count - head) * sizeof(T) / 16;

#pragma unroll 1
	for (; at + (at_once - 1) * stride < vectors; at += at_once * stride)
		haul_vectors<T, at_once>(steps, haul, begin, at, stride);
#pragma unroll 1
	for (; at < vectors; at += stride)
		haul_vectors<T, 1>(steps, haul, begin, at, stride);
#pragma unroll 1
	for (at = threadIdx.x; at < head; at += stride)
		haul_element<T>(steps, haul, at);
#pragma unroll 1
	for (at = head + vectors * 16 / sizeof(T) + threadIdx.x; at < haul.count; at += stride)
		haul_element<T>(steps, haul, at);
}

/* ---- The whole ----------------------------------------------------------------------------- */

template <typename T>
static __device__ bool run_piece(const struct rd_steps &steps, struct channel &shared, size_t piece)
{
#pragma unroll 1
	for (int i = 0; i < steps.move_count; i++) {
		const struct rd_move *move = &steps.moves[i];

		if (is_empty(&steps, move, piece))
			continue;
		if (!begin_move(&steps, &shared, (int)blockIdx.x, move, piece))
			return false;
		haul_elements<T>(steps, shared.haul);
		end_move(&steps, &shared, (int)blockIdx.x, move, piece);
	}
	return true;
}

template <typename T> static __device__ void run(const struct rd_steps &steps)
{
	BLOCK_MEMORY(struct channel, shared);

	begin_channel(&steps, &shared, (int)blockIdx.x);
#pragma unroll 1
	for (size_t piece = blockIdx.x; piece < steps.pieces; piece += gridDim.x)
		if (!run_piece<T>(steps, shared, piece))
			return;
	end_channel(&steps, &shared, (int)blockIdx.x);
}

#define KERNEL(name, type) \
	extern "C" __global__ void __launch_bounds__(THREADS, 2) \
		rondo_steps_##name(const __grid_constant__ struct rd_steps steps) \
	{ \
		run<type>(steps); \
	}

RD_ELEMENTS(KERNEL)
