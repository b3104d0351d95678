/*
 * Kernels that run plans of messages (steps.h): steps_run.h for each element type, a block for each
 * channel. Here is the operation on elements, 16 bytes at a time.
 *
 * All blocks of all ranks must be resident at once; lib/gpu sees to that. All threads write a
 * message's bytes into the peer's memory, then one writes its flag. The block's barrier and a fence
 * of the whole system lie between, and also between the peer's read of the flag and of the bytes.
 * Reads of bytes bypass the first-level cache, and no pointer is __restrict__: slots are reused.
 */
#include "device/cuda/block.cuh"
#include "device/cuda/reduce.cuh"
#include "device/steps_run.h"

/* ---- Elements ------------------------------------------------------------------------------ */

/* Elements before the first vector; all of them where the pointers do not lie alike. */
template <typename T> static __device__ size_t head_of(const struct operands &operands)
{
	uint64_t at = (uint64_t)operands.a % 16;
	size_t head = (16 - at) % 16 / sizeof(T);

	if ((operands.b && (uint64_t)operands.b % 16 != at) ||
		(operands.into && (uint64_t)operands.into % 16 != at) ||
		(operands.out && (uint64_t)operands.out % 16 != at) || at % sizeof(T) != 0)
		return operands.count;
	return head < operands.count ? head : operands.count;
}

/* A barrier's message has no element, a chunk that is only passed on no place here. */
static __device__ bool moves_nothing(const struct operands &operands)
{
	return operands.count == 0 ||
	       (!operands.out && (!operands.into || (operands.into == operands.a && !operands.b)));
}

/* Means of narrower floats are the host's. */
template <typename T> constexpr bool may_average = std::is_same<T, typename element<T>::sum>::value;

/* An addition of a mean. */
template <typename Sum> struct mean {
	Sum a, b, full_a, full_b; /* what its operands are multiplied by */
	Sum by, scaled_by;
	bool last;
};

template <typename Sum>
static __device__ struct mean<Sum> mean_of(
	const struct rd_steps &steps, const struct operands &operands) {
	Sum scale = scale_for<Sum>(steps.size), one = 1, full = divided(one, scale);

	return {
		.a = operands.a_is_sum ? one : scale,
		.b = operands.b_is_sum ? one : scale,
		.full_a = operands.a_is_sum ? full : one,
		.full_b = operands.b_is_sum ? full : one,
		.by = (Sum)steps.size,
		.scaled_by = (Sum)(steps.size *scale),
		.last = operands.last,
	};
}

template <typename Sum>
static __device__ Sum add_to_mean(const struct mean<Sum> &mean, Sum a, Sum b)
{
	Sum sum = add(multiply(a, mean.a), multiply(b, mean.b));

	if (!mean.last)
		return sum;

	Sum full = add(multiply(a, mean.full_a), multiply(b, mean.full_b));
	bool fits = is_finite(full);

	return divided(fits ? full : sum, fits ? mean.by : mean.scaled_by);
}

template <typename T>
static __device__ T combine_elements(
	const struct rd_steps &steps, const struct operands &operands, T message, T ours)
{
	using Sum = typename element<T>::sum;
	Sum a = element<T>::widen(message), b = element<T>::widen(ours);

	if (may_average<T> && operands.is_mean)
		return element<T>::narrow(add_to_mean(mean_of<Sum>(steps, operands), a, b));
	return element<T>::narrow(combine_any<T>(steps.op, a, b));
}

/* `at`: the element's first byte. */
template <typename T>
static __device__ void operate_on_element(
	const struct rd_steps &steps, const struct operands &operands, size_t at)
{
	T value = load_element<T>(operands.a + at);

	if (operands.b)
		value = combine_elements(steps, operands, value, load_element<T>(operands.b + at));
	if (operands.into)
		store_element(operands.into + at, value);
	if (operands.out)
		store_element(operands.out + at, value);
}

template <typename T, int at_once>
static __device__ void add_up_mean(const struct mean<typename element<T>::sum> &mean,
	typename element<T>::sum (&sums)[at_once][16 / sizeof(T)], const vector<T> (&ours)[at_once])
{
#pragma unroll
	for (int k = 0; k < at_once; k++) {
		typename element<T>::sum wide[16 / sizeof(T)];

		widen_all(wide, ours[k]);
#pragma unroll
		for (int e = 0; e < (int)(16 / sizeof(T)); e++)
			sums[k][e] = add_to_mean(mean, sums[k][e], wide[e]);
	}
}

/* got = got op ours. */
template <typename T, int at_once>
static __device__ void combine_with(const struct rd_steps &steps, const struct operands &operands,
	vector<T> (&got)[at_once], const vector<T> (&ours)[at_once])
{
	typename element<T>::sum sums[at_once][16 / sizeof(T)];

#pragma unroll
	for (int k = 0; k < at_once; k++)
		widen_all(sums[k], got[k]);
	if (may_average<T> && operands.is_mean)
		add_up_mean<T>(mean_of<typename element<T>::sum>(steps, operands), sums, ours);
	else
		add_up_by<T>(steps.op, sums, ours);
#pragma unroll
	for (int k = 0; k < at_once; k++)
		finish_all<T>(got[k], sums[k], 1);
}

/* `begin`: bytes before the vectors. All loads of a thread are on their way together. */
template <typename T, int at_once>
static __device__ void operate_on_vectors(const struct rd_steps &steps,
	const struct operands &operands, size_t begin, size_t first, size_t stride)
{
	vector<T> got[at_once], ours[at_once];

#pragma unroll
	for (int k = 0; k < at_once; k++)
		got[k].words = __ldcg((const uint4 *)(operands.a + begin) + first + k * stride);
	if (operands.b) {
#pragma unroll
		for (int k = 0; k < at_once; k++)
			ours[k].words =
				__ldcg((const uint4 *)(operands.b + begin) + first + k * stride);
		combine_with<T, at_once>(steps, operands, got, ours);
	}
	if (operands.into)
#pragma unroll
		for (int k = 0; k < at_once; k++)
			__stcg((uint4 *)(operands.into + begin) + first + k * stride, got[k].words);
	if (operands.out)
#pragma unroll
		for (int k = 0; k < at_once; k++)
			__stcg((uint4 *)(operands.out + begin) + first + k * stride, got[k].words);
}

template <typename T>
static __device__ void operate(
	const struct rd_steps *steps_at, const struct operands *operands_at, struct elements<T>)
{
	const struct rd_steps &steps = *steps_at;
	const struct operands &operands = *operands_at;
	/* As many as registers hold: elements of a byte are 16 sums a vector. */
	constexpr int at_once = sizeof(T) >= 4 ? 4 : sizeof(T);
	size_t stride = blockDim.x, at = threadIdx.x;

	if (moves_nothing(operands))
		return;

	size_t head = head_of<T>(operands), begin = head * sizeof(T);
	size_t vectors = (operands.count - head) * sizeof(T) / 16;

#pragma unroll 1
	for (; at + (at_once - 1) * stride < vectors; at += at_once * stride)
		operate_on_vectors<T, at_once>(steps, operands, begin, at, stride);
#pragma unroll 1
	for (; at < vectors; at += stride)
		operate_on_vectors<T, 1>(steps, operands, begin, at, stride);
#pragma unroll 1
	for (at = threadIdx.x; at < head; at += stride)
		operate_on_element<T>(steps, operands, at * sizeof(T));
#pragma unroll 1
	for (at = head + vectors * 16 / sizeof(T) + threadIdx.x; at < operands.count; at += stride)
		operate_on_element<T>(steps, operands, at * sizeof(T));
}

/* ---- The kernels ---------------------------------------------------------------------------- */

#define KERNEL(name, type) \
	extern "C" __global__ void __launch_bounds__(THREADS, 2) \
		rondo_steps_##name(const __grid_constant__ struct rd_steps steps) \
	{ \
		BLOCK_MEMORY(struct channel, shared); \
\
		run_channel(&steps, &shared, BLOCK, elements<type>()); \
	}

RD_ELEMENTS(KERNEL)
