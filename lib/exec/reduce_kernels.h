/*
 * The kernels of one instruction set; included once by each reduce_*.c, which first defines
 *   VARIANT, VARIANT_NAME       the table's name, and what it is called
 * and where f16 has instructions
 *   floats, WIDTH               a vector of f32, and how many it holds
 *   copy_line(to, at)           64 bytes, to the start of a cache line
 *   widen(p), narrow(p, x)      WIDTH f16 from memory to floats, and back
 *   widen_one(), narrow_one()   one f16 to lane 0, and back
 *   lesser(x, y)                as f32_lesser() below, in each lane
 *
 * All other kernels are plain loops that the compiler vectorises. `into` may be a or b, so the
 * pragma states that iterations do not depend on each other, not that the buffers differ.
 */
#include <stdbool.h>

#include "exec/f8.h"
#include "exec/half.h"
#include "exec/reduce_variant.h"

#if defined(__clang__)
#define INDEPENDENT _Pragma("clang loop vectorize(assume_safety)")
/* Sanitizers put checks into loops, which then do not vectorise; the warning is expected. */
#pragma clang diagnostic ignored "-Wpass-failed"
#else
#define INDEPENDENT _Pragma("GCC ivdep")
#endif

/* In memory elements may lie at any address. */
#define ELEMENT(type) typedef type __attribute__((aligned(1), may_alias)) element

#define KERNEL(name, type, combined) \
	static void name(void *into_, const void *a_, const void *b_, size_t count) \
	{ \
		ELEMENT(type); \
		element *into = into_; \
		const element *a = a_, *b = b_; \
		INDEPENDENT for (size_t i = 0; i < count; i++) \
		{ \
			const type x = a[i], y = b[i]; \
			into[i] = (type)(combined); \
		} \
	}

#define AVERAGE(name, type, divided) \
	static bool name(void *into_, size_t count, int by) \
	{ \
		ELEMENT(type); \
		element *into = into_; \
		INDEPENDENT for (size_t i = 0; i < count; i++) \
		{ \
			const type x = into[i]; \
			into[i] = (type)(divided); \
		} \
		return true; \
	}

/* ---- Integers: signed sums and products are unsigned ones, which wrap ---- */

/* 1u: C would multiply two uint16_t as int, which may not overflow. */
#define INTEGER(bits) \
	KERNEL(sum##bits, uint##bits##_t, x + y) \
	KERNEL(prod##bits, uint##bits##_t, (x * 1u * y)) \
	KERNEL(u##bits##_min, uint##bits##_t, x < y ? x : y) \
	KERNEL(u##bits##_max, uint##bits##_t, x > y ? x : y) \
	KERNEL(i##bits##_min, int##bits##_t, x < y ? x : y) \
	KERNEL(i##bits##_max, int##bits##_t, x > y ? x : y) \
	KERNEL(band##bits, uint##bits##_t, x &y) \
	KERNEL(bor##bits, uint##bits##_t, x | y) \
	KERNEL(bxor##bits, uint##bits##_t, x ^ y) \
	KERNEL(land##bits, uint##bits##_t, (x != 0) & (y != 0)) \
	KERNEL(lor##bits, uint##bits##_t, (x | y) != 0) \
	KERNEL(lxor##bits, uint##bits##_t, (x != 0) ^ (y != 0))

INTEGER(8)
INTEGER(16)
INTEGER(32)
INTEGER(64)

/* There are no vectors of integer division. A quotient is exact, or at least 1/by short of the next
   integer. The rounding of a float (for 32 bits, of a double) adds less. */
AVERAGE(i8_avg, int8_t, x / (float)by)
AVERAGE(u8_avg, uint8_t, x / (float)by)
AVERAGE(i16_avg, int16_t, x / (float)by)
AVERAGE(u16_avg, uint16_t, x / (float)by)
AVERAGE(i32_avg, int32_t, x / (double)by)
AVERAGE(u32_avg, uint32_t, x / (double)by)
AVERAGE(i64_avg, int64_t, x / by)
AVERAGE(u64_avg, uint64_t, x / (unsigned)by)

/* ---- f32 and f64 ---- */

/*
 * Each half of the pair is one minps: where the arguments are equal or one is NaN it gives its
 * second. So the bits of both or'ed are the lesser; -0 of two zeros; and NaN as soon as one is; and
 * the same for (x, y) as for (y, x).
 */
static inline float f32_lesser(float x, float y)
{
	return f32_of_bits(f32_bits(x < y ? x : y) | f32_bits(y < x ? y : x));
}

static inline float f32_greater(float x, float y)
{
	return -f32_lesser(-x, -y);
}

static inline uint64_t f64_bits(double value)
{
	uint64_t bits;
	memcpy(&bits, &value, sizeof(bits));
	return bits;
}

static inline double f64_lesser(double x, double y)
{
	const uint64_t bits = f64_bits(x < y ? x : y) | f64_bits(y < x ? y : x);
	double value;
	memcpy(&value, &bits, sizeof(value));
	return value;
}

static inline double f64_greater(double x, double y)
{
	return -f64_lesser(-x, -y);
}

KERNEL(f32_sum, float, x + y)
KERNEL(f32_prod, float, (x * y))
KERNEL(f32_min, float, f32_lesser(x, y))
KERNEL(f32_max, float, f32_greater(x, y))

KERNEL(f64_sum, double, x + y)
KERNEL(f64_prod, double, (x * y))
KERNEL(f64_min, double, f64_lesser(x, y))
KERNEL(f64_max, double, f64_greater(x, y))

/* Without a branch, so that loops vectorise. */
static inline float f32_either(uint32_t condition, float yes, float no)
{
	return f32_of_bits(rd_either(condition, f32_bits(yes), f32_bits(no)));
}

static inline double f64_either(uint64_t condition, double yes, double no)
{
	const uint64_t mask = 0u - condition,
		       bits = (f64_bits(yes) & mask) | (f64_bits(no) & ~mask);
	double value;
	memcpy(&value, &bits, sizeof(value));
	return value;
}

/* Infinity or NaN. */
#define F32_INFINITE(x) ((f32_bits(x) & F32_INFINITY) == F32_INFINITY)
#define F64_INFINITY (2047ull << 52)
#define F64_INFINITE(x) ((f64_bits(x) & F64_INFINITY) == F64_INFINITY)

/* `bits` is as wide as `real`. */
#define MEAN(name, real, bits, infinite) \
	static bool name##_avg(void *into_, size_t count, int by) \
	{ \
		ELEMENT(real); \
		element *into = into_; \
		bits found = 0; \
		INDEPENDENT for (size_t i = 0; i < count; i++) \
		{ \
			const real x = into[i] / (real)by; \
			into[i] = x; \
			found |= infinite(x); \
		} \
		return !found; \
	} \
	static void name##_add_scaled(void *into_, const void *a_, const void *b_, size_t count, \
		const struct rd_scaled_sum *sum) \
	{ \
		ELEMENT(real); \
		element *into = into_; \
		const element *a = a_, *b = b_; \
		const real by_a = (real)sum->a, by_b = (real)sum->b; \
		INDEPENDENT for (size_t i = 0; i < count; i++) into[i] = \
			a[i] * by_a + b[i] * by_b; \
	} \
	static void name##_finish_scaled(void *into_, const void *a_, const void *b_, \
		size_t count, const struct rd_scaled_sum *sum) \
	{ \
		ELEMENT(real); \
		element *into = into_; \
		const element *a = a_, *b = b_; \
		const real by_a = (real)sum->a, by_b = (real)sum->b, by = (real)sum->by; \
		const real full_a = (real)(sum->a / sum->scale), \
			   full_b = (real)(sum->b / sum->scale), \
			   by_scaled = (real)(sum->by * sum->scale); \
		INDEPENDENT for (size_t i = 0; i < count; i++) \
		{ \
			const real full = a[i] * full_a + b[i] * full_b; \
			const real scaled = a[i] * by_a + b[i] * by_b; \
			const bits beyond = infinite(full); \
			into[i] = name##_either(beyond, scaled, full) / \
				  name##_either(beyond, by_scaled, by); \
		} \
	}

MEAN(f32, float, uint32_t, F32_INFINITE)
MEAN(f64, double, uint64_t, F64_INFINITE)

/* ---- bf16: two at a time, as the halves of a word, so that no lane has to change its place ----
 */

#define UPPER(word) ((word)&0xffff0000u)

/* `combined` is the f32 whose upper half is the answer, as bits. */
#define BF16_KERNEL(name, combined) \
	static inline uint32_t name##_one(float x, float y) \
	{ \
		return combined; \
	} \
	KERNEL(name##_pairs, uint32_t, \
		UPPER(name##_one(f32_of_bits(UPPER(x)), f32_of_bits(UPPER(y)))) | \
			name##_one(f32_of_bits(x << 16), f32_of_bits(y << 16)) >> 16) \
	KERNEL(name##_last, uint16_t, name##_one(bf16_widen(x), bf16_widen(y)) >> 16) \
	static void name(void *into, const void *a, const void *b, size_t count) \
	{ \
		const size_t pairs = count / 2 * 4; \
		name##_pairs(into, a, b, count / 2); \
		if (count % 2) \
			name##_last((char *)into + pairs, (const char *)a + pairs, \
				(const char *)b + pairs, 1); \
	}

BF16_KERNEL(bf16_sum, bf16_round(x + y))
BF16_KERNEL(bf16_prod, bf16_round((x * y)))
BF16_KERNEL(bf16_min, f32_bits(f32_lesser(x, y)))
BF16_KERNEL(bf16_max, f32_bits(f32_greater(x, y)))

/* ---- f8 ---- */

#define F8(type) \
	KERNEL(type##_sum, uint8_t, type##_narrow(type##_widen(x) + type##_widen(y))) \
	KERNEL(type##_prod, uint8_t, type##_narrow(type##_widen(x) * type##_widen(y))) \
	KERNEL(type##_min, uint8_t, type##_narrow(f32_lesser(type##_widen(x), type##_widen(y)))) \
	KERNEL(type##_max, uint8_t, type##_narrow(f32_greater(type##_widen(x), type##_widen(y))))

F8(f8e4m3)
F8(f8e5m2)

/* ---- f16 ---- */

#ifndef WIDTH
KERNEL(f16_sum, uint16_t, f16_narrow(f16_widen(x) + f16_widen(y)))
KERNEL(f16_prod, uint16_t, f16_narrow(f16_widen(x) * f16_widen(y)))
KERNEL(f16_min, uint16_t, f16_narrow(f32_lesser(f16_widen(x), f16_widen(y))))
KERNEL(f16_max, uint16_t, f16_narrow(f32_greater(f16_widen(x), f16_widen(y))))
#else

#define F16_KERNEL(name, combined) \
	static void name(void *into_, const void *a_, const void *b_, size_t count) \
	{ \
		ELEMENT(uint16_t); \
		element *into = into_; \
		const element *a = a_, *b = b_; \
		size_t i = 0; \
		for (; count - i >= WIDTH; i += WIDTH) { \
			const floats x = widen(a + i), y = widen(b + i); \
			narrow(into + i, combined); \
		} \
		for (; i < count; i++) { \
			const floats x = widen_one(a[i]), y = widen_one(b[i]); \
			into[i] = narrow_one(combined); \
		} \
	}

F16_KERNEL(f16_sum, x + y)
F16_KERNEL(f16_prod, (x * y))
F16_KERNEL(f16_min, lesser(x, y))
F16_KERNEL(f16_max, -lesser(-x, -y))

#endif

/* ---- Conversions ---- */

#define CONVERSIONS(type, code) \
	static void type##_widen_all(float *into, const void *from_, size_t count) \
	{ \
		ELEMENT(code); \
		const element *from = from_; \
		INDEPENDENT for (size_t i = 0; i < count; i++) into[i] = type##_widen(from[i]); \
	} \
	static void type##_narrow_all(void *into_, const float *from, size_t count) \
	{ \
		ELEMENT(code); \
		element *into = into_; \
		INDEPENDENT for (size_t i = 0; i < count; i++) into[i] = type##_narrow(from[i]); \
	}

CONVERSIONS(f16, uint16_t)
CONVERSIONS(bf16, uint16_t)
CONVERSIONS(f8e4m3, uint8_t)
CONVERSIONS(f8e5m2, uint8_t)

/* ---- Complex numbers ---- */

/*
 * The opposite sign, as bits. A product has only additions, for gcc 12 makes fused instructions of
 * a subtraction beside an addition (vfmaddsub), even where -ffp-contract=off forbids it. Fused, the
 * two orders of the arguments would differ.
 */
static inline float f32_minus(float x)
{
	return f32_of_bits(f32_bits(x) ^ 1u << 31);
}

static inline double f64_minus(double x)
{
	const uint64_t bits = f64_bits(x) ^ 1ull << 63;
	double value;
	memcpy(&value, &bits, sizeof(value));
	return value;
}

#define COMPLEX(name, part, real) \
	static void name##_sum(void *into, const void *a, const void *b, size_t count) \
	{ \
		part##_sum(into, a, b, 2 * count); \
	} \
	static void name##_prod(void *into_, const void *a_, const void *b_, size_t count) \
	{ \
		ELEMENT(real); \
		element *into = into_; \
		const element *a = a_, *b = b_; \
		INDEPENDENT for (size_t i = 0; i < 2 * count; i += 2) \
		{ \
			const real a_re = a[i], a_im = a[i + 1], b_re = b[i], b_im = b[i + 1]; \
			into[i] = a_re * b_re + part##_minus(a_im * b_im); \
			into[i + 1] = a_re * b_im + a_im * b_re; \
		} \
	}

COMPLEX(complex64, f32, float)
COMPLEX(complex128, f64, double)

/* ---- The table ---- */

#define OPS(sum, prod, min, max) \
	[RONDO_SUM] = (sum), [RONDO_PROD] = (prod), [RONDO_MIN] = (min), [RONDO_MAX] = (max), \
	[RONDO_AVG] = (sum)
#define INTEGER_OPS(sign, bits) \
	{ \
		OPS(sum##bits, prod##bits, sign##bits##_min, sign##bits##_max), \
			[RONDO_BAND] = band##bits, [RONDO_BOR] = bor##bits, \
			[RONDO_BXOR] = bxor##bits, [RONDO_LAND] = land##bits, \
			[RONDO_LOR] = lor##bits, [RONDO_LXOR] = lxor##bits \
	}
#define FLOAT_OPS(type) \
	{ \
		OPS(type##_sum, type##_prod, type##_min, type##_max) \
	}

#define BOOL_OPS \
	{ \
		[RONDO_SUM] = lor8, [RONDO_PROD] = land8, [RONDO_MIN] = land8, [RONDO_MAX] = lor8, \
		[RONDO_BAND] = land8, [RONDO_BOR] = lor8, [RONDO_BXOR] = lxor8, \
		[RONDO_LAND] = land8, [RONDO_LOR] = lor8, [RONDO_LXOR] = lxor8 \
	}
#define COMPLEX_OPS(type) \
	{ \
		[RONDO_SUM] = type##_sum, [RONDO_PROD] = type##_prod, [RONDO_AVG] = type##_sum \
	}

/* ---- Copies ---- */

#define LINE 64

/* At least a line. Stores cross no line; the first ones may come twice. */
static void copy(void *into, const void *from, size_t size)
{
#ifdef WIDTH
	char *to = into;
	const char *at = from;
	size_t head = -(uintptr_t)to % LINE;

	memcpy(to, at, LINE);
	for (size_t done = head; size - done >= LINE; done += LINE)
		copy_line(to + done, at + done);
	memcpy(to + size - LINE, at + size - LINE, LINE);
#else
	memcpy(into, from, size);
#endif
}

const struct rd_reduce_variant VARIANT = {
	.name = VARIANT_NAME,
	.copy = copy,
	.reduce = {
		[RONDO_I8] = INTEGER_OPS(i, 8),
		[RONDO_U8] = INTEGER_OPS(u, 8),
		[RONDO_I16] = INTEGER_OPS(i, 16),
		[RONDO_U16] = INTEGER_OPS(u, 16),
		[RONDO_I32] = INTEGER_OPS(i, 32),
		[RONDO_U32] = INTEGER_OPS(u, 32),
		[RONDO_I64] = INTEGER_OPS(i, 64),
		[RONDO_U64] = INTEGER_OPS(u, 64),
		[RONDO_F16] = FLOAT_OPS(f16),
		[RONDO_BF16] = FLOAT_OPS(bf16),
		[RONDO_F32] = FLOAT_OPS(f32),
		[RONDO_F64] = FLOAT_OPS(f64),
		[RONDO_F8E4M3] = FLOAT_OPS(f8e4m3),
		[RONDO_F8E5M2] = FLOAT_OPS(f8e5m2),
		[RONDO_BOOL] = BOOL_OPS,
		[RONDO_COMPLEX64] = COMPLEX_OPS(complex64),
		[RONDO_COMPLEX128] = COMPLEX_OPS(complex128),
	},
	.average = {
		[RONDO_I8] = i8_avg,
		[RONDO_U8] = u8_avg,
		[RONDO_I16] = i16_avg,
		[RONDO_U16] = u16_avg,
		[RONDO_I32] = i32_avg,
		[RONDO_U32] = u32_avg,
		[RONDO_I64] = i64_avg,
		[RONDO_U64] = u64_avg,
		[RONDO_F32] = f32_avg,
		[RONDO_F64] = f64_avg,
	},
	.add_scaled = {
		[RONDO_F32] = { f32_add_scaled, f32_finish_scaled },
		[RONDO_F64] = { f64_add_scaled, f64_finish_scaled },
	},
	.widen = {
		[RONDO_F16] = f16_widen_all,
		[RONDO_BF16] = bf16_widen_all,
		[RONDO_F8E4M3] = f8e4m3_widen_all,
		[RONDO_F8E5M2] = f8e5m2_widen_all,
	},
	.narrow = {
		[RONDO_F16] = f16_narrow_all,
		[RONDO_BF16] = bf16_narrow_all,
		[RONDO_F8E4M3] = f8e4m3_narrow_all,
		[RONDO_F8E5M2] = f8e5m2_narrow_all,
	},
};
