/*
 * Kernels' arithmetic on elements: every type, every operation, 16 bytes at a time. All kernels use
 * it, so that a value is the same bits whichever of them combined it.
 */
#ifndef RD_REDUCE_CUH
#define RD_REDUCE_CUH

#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <stdint.h>
#include <type_traits>

#include "device/cuda/f8.cuh"
#include "rondo.h"

#ifndef RONDO_MACHINE
#define RONDO_MACHINE "machine.cuh"
#endif
#include RONDO_MACHINE

/* X(name, type): a kernel each. */
#define RD_ELEMENTS(X) \
	X(i8, int8_t) \
	X(u8, uint8_t) \
	X(i32, int32_t) \
	X(u32, uint32_t) \
	X(i64, int64_t) \
	X(u64, uint64_t) \
	X(f16, __half) \
	X(bf16, __nv_bfloat16) \
	X(f32, float) \
	X(f64, double) \
	X(f8e4m3, struct f8e4m3) \
	X(f8e5m2, struct f8e5m2) \
	X(i16, int16_t) \
	X(u16, uint16_t)

/* ---- Elements ------------------------------------------------------------------------------ */

/* The type of an element's sum: f32 for f16, bf16 and f8, rounded once, at the end. */
template <typename T> struct element {
	using sum = T;
	static __device__ T widen(T value)
	{
		return value;
	}
	static __device__ T narrow(T value)
	{
		return value;
	}
};

template <> struct element<__half> {
	using sum = float;
	static __device__ float widen(__half value)
	{
		return __half2float(value);
	}
	static __device__ __half narrow(float value)
	{
		return __float2half_rn(value);
	}
};

template <> struct element<__nv_bfloat16> {
	using sum = float;
	static __device__ float widen(__nv_bfloat16 value)
	{
		return __bfloat162float(value);
	}
	static __device__ __nv_bfloat16 narrow(float value)
	{
		return __float2bfloat16_rn(value);
	}
};

struct f8e4m3 {
	uint8_t code;
};

template <> struct element<f8e4m3> {
	using sum = float;
	static __device__ float2 widen_two(uint16_t codes)
	{
		return widen_two_e4m3(codes);
	}
	static __device__ uint16_t narrow_two(float2 values)
	{
		return narrow_two_e4m3(values);
	}
	static __device__ float widen(f8e4m3 value)
	{
		return widen_two(value.code).x;
	}
	static __device__ f8e4m3 narrow(float value)
	{
		return { (uint8_t)narrow_two({ value, 0 }) };
	}
};

struct f8e5m2 {
	uint8_t code;
};

template <> struct element<f8e5m2> {
	using sum = float;
	static __device__ float2 widen_two(uint16_t codes)
	{
		return widen_two_e5m2(codes);
	}
	static __device__ uint16_t narrow_two(float2 values)
	{
		return narrow_two_e5m2(values);
	}
	static __device__ float widen(f8e5m2 value)
	{
		return widen_two(value.code).x;
	}
	static __device__ f8e5m2 narrow(float value)
	{
		return { (uint8_t)narrow_two({ value, 0 }) };
	}
};

/* An element and its bytes. */
template <typename T> union bytes_of {
	unsigned char bytes[sizeof(T)];
	T element;
};

/* At any address: a GPU stops a kernel whose access is not aligned to its own size. */
template <typename T> static __device__ T load_element(const char *at)
{
	bytes_of<T> got;

	if ((uint64_t)at % sizeof(T) == 0)
		return *(const T *)at;
#pragma unroll
	for (int i = 0; i < (int)sizeof(T); i++)
		got.bytes[i] = at[i];
	return got.element;
}

template <typename T> static __device__ void store_element(char *at, T value)
{
	bytes_of<T> made;

	if ((uint64_t)at % sizeof(T) == 0) {
		*(T *)at = value;
		return;
	}
	made.element = value;
#pragma unroll
	for (int i = 0; i < (int)sizeof(T); i++)
		at[i] = made.bytes[i];
}

/* Signed sums and products wrap, as unsigned ones do. */
template <typename T> __device__ T add(T a, T b)
{
	return a + b;
}
template <> inline __device__ int32_t add(int32_t a, int32_t b)
{
	return (uint32_t)a + (uint32_t)b;
}
template <> inline __device__ int64_t add(int64_t a, int64_t b)
{
	return (uint64_t)a + (uint64_t)b;
}
template <typename T> __device__ T multiply(T a, T b)
{
	return a * b;
}
template <> inline __device__ int32_t multiply(int32_t a, int32_t b)
{
	return (uint32_t)a * (uint32_t)b;
}
template <> inline __device__ int64_t multiply(int64_t a, int64_t b)
{
	return (uint64_t)a * (uint64_t)b;
}
/* Not as int, to which C++ would promote them. */
template <> inline __device__ uint16_t multiply(uint16_t a, uint16_t b)
{
	return (uint32_t)a * (uint32_t)b;
}

template <typename T> __device__ T least(T a, T b)
{
	return b < a ? b : a;
}
template <typename T> __device__ T greatest(T a, T b)
{
	return a < b ? b : a;
}

template <> inline __device__ float least(float a, float b)
{
	return least_of(a, b);
}
template <> inline __device__ float greatest(float a, float b)
{
	return greatest_of(a, b);
}

/* A NaN wins, and -0 is less than +0. */
template <> inline __device__ double least(double a, double b)
{
	if (a != a || b != b)
		return a != a ? a : b;
	return b < a || (a == b && signbit(b)) ? b : a;
}

template <> inline __device__ double greatest(double a, double b)
{
	if (a != a || b != b)
		return a != a ? a : b;
	return a < b || (a == b && signbit(a)) ? b : a;
}

/* For integers alone: floats have no instance that is run. */
template <int op, typename T> __device__ T combine_bits(T a, T b)
{
	if constexpr (std::is_integral<T>::value) {
		if (op == RONDO_BAND)
			return a & b;
		if (op == RONDO_BOR)
			return a | b;
		if (op == RONDO_BXOR)
			return a ^ b;
		if (op == RONDO_LAND)
			return a && b;
		if (op == RONDO_LOR)
			return a || b;
		return !a != !b;
	}
	return a;
}

template <int op, typename T> __device__ T combine_two(T a, T b)
{
	if (op == RONDO_PROD)
		return multiply(a, b);
	if (op == RONDO_MIN)
		return least(a, b);
	if (op == RONDO_MAX)
		return greatest(a, b);
	if (op > RONDO_AVG)
		return combine_bits<op>(a, b);
	return add(a, b);
}

/* One switch for many elements, which are all of one operation: `run` is given it as a type's
 * value. */
template <int number> struct op_of {
	static constexpr int value = number;
};

template <typename T, typename Run> static __device__ void by_op(int op, Run run)
{
	if constexpr (std::is_integral<T>::value) {
		switch (op) {
		case RONDO_BAND:
			return run(op_of<RONDO_BAND>());
		case RONDO_BOR:
			return run(op_of<RONDO_BOR>());
		case RONDO_BXOR:
			return run(op_of<RONDO_BXOR>());
		case RONDO_LAND:
			return run(op_of<RONDO_LAND>());
		case RONDO_LOR:
			return run(op_of<RONDO_LOR>());
		case RONDO_LXOR:
			return run(op_of<RONDO_LXOR>());
		}
	}
	switch (op) {
	case RONDO_PROD:
		return run(op_of<RONDO_PROD>());
	case RONDO_MIN:
		return run(op_of<RONDO_MIN>());
	case RONDO_MAX:
		return run(op_of<RONDO_MAX>());
	}
	run(op_of<RONDO_SUM>());
}

/* Integers are divided as what they have become in their own width, towards zero. */
template <typename Sum> static __device__ Sum divided(Sum sum, Sum by)
{
	return by == 1 ? sum : (Sum)(sum / by);
}

template <typename T> __device__ T finish(typename element<T>::sum sum, typename element<T>::sum by)
{
	return element<T>::narrow(divided(sum, by));
}

/* ---- Means: as in exec/mean.h --------------------------------------------------------------- */

/* Whether a sum of finite elements may be infinite: one of f16 or f8, in f32, may not. */
template <typename T>
constexpr bool may_overflow =
	std::is_floating_point<T>::value || std::is_same<T, __nv_bfloat16>::value;

/* Integers are. */
template <typename Sum> static __device__ bool is_finite(Sum value)
{
	return value - value == 0;
}

/* No sum of `ranks` elements, each times this, leaves the range. */
template <typename Sum> static __device__ Sum scale_for(int ranks)
{
	Sum scale = 1;

	if constexpr (std::is_floating_point<Sum>::value)
#pragma unroll 1
		while ((Sum)ranks * scale > 1)
			scale *= (Sum)0.5;
	return scale;
}

/* 16 bytes as elements. */
template <typename T> union vector {
	uint4 words;
	uint16_t pairs[8]; /* of 8-bit floats */
	T elements[16 / sizeof(T)];
};

template <typename T>
constexpr bool is_f8 = std::is_same<T, f8e4m3>::value || std::is_same<T, f8e5m2>::value;

template <typename T>
static __device__ void widen_all(
	typename element<T>::sum (&wide)[16 / sizeof(T)], const vector<T> &from)
{
	using E = element<T>;

	if constexpr (is_f8<T>) {
#pragma unroll
		for (int i = 0; i < 8; i++) {
			float2 two = E::widen_two(from.pairs[i]);

			wide[2 * i] = two.x;
			wide[2 * i + 1] = two.y;
		}
	} else {
#pragma unroll
		for (int e = 0; e < (int)(16 / sizeof(T)); e++)
			wide[e] = E::widen(from.elements[e]);
	}
}

template <typename T>
static __device__ void finish_all(vector<T> &made,
	const typename element<T>::sum (&sums)[16 / sizeof(T)], typename element<T>::sum by)
{
	using E = element<T>;

	if constexpr (is_f8<T>) {
#pragma unroll
		for (int i = 0; i < 8; i++)
			made.pairs[i] = E::narrow_two(
				{ divided(sums[2 * i], by), divided(sums[2 * i + 1], by) });
	} else {
#pragma unroll
		for (int e = 0; e < (int)(16 / sizeof(T)); e++)
			made.elements[e] = E::narrow(divided(sums[e], by));
	}
}

template <typename T, int op, int at_once>
static __device__ void add_up(
	typename element<T>::sum (&sums)[at_once][16 / sizeof(T)], const vector<T> (&got)[at_once])
{
	using sum = typename element<T>::sum;

#pragma unroll
	for (int k = 0; k < at_once; k++) {
		sum wide[16 / sizeof(T)];

		widen_all(wide, got[k]);
#pragma unroll
		for (int e = 0; e < (int)(16 / sizeof(T)); e++)
			sums[k][e] = combine_two<op, sum>(sums[k][e], wide[e]);
	}
}

template <typename T, int at_once>
static __device__ void add_up_by(int op, typename element<T>::sum (&sums)[at_once][16 / sizeof(T)],
	const vector<T> (&got)[at_once])
{
	by_op<T>(op, [&](auto known) { add_up<T, known.value>(sums, got); });
}

template <typename T>
static __device__ typename element<T>::sum combine_any(
	int op, typename element<T>::sum a, typename element<T>::sum b)
{
	typename element<T>::sum combined;

	by_op<T>(op, [&](auto known) { combined = combine_two<known.value>(a, b); });
	return combined;
}

#endif
