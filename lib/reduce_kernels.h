/*
 * The kernels of one instruction set; included once by each reduce_*.c, which first defines
 *   VARIANT, VARIANT_NAME       the table's name, and what it is called
 * and where f16 has instructions
 *   floats, LANES               a vector of f32, and how many it holds
 *   widen(p), narrow(p, x)      LANES f16 from memory to floats, and back
 *   widen_one(), narrow_one()   one f16 to lane 0, and back
 *   lesser(x, y)                as f32_lesser() below, in each lane
 *
 * All else are plain loops that the compiler vectorises. `into` may be a or b, so the compiler is
 * told that iterations do not depend on each other, which holds, and not that the buffers differ.
 */
#include "half.h"
#include "reduce_variant.h"

#if defined(__clang__)
#define INDEPENDENT _Pragma("clang loop vectorize(assume_safety)")
#else
#define INDEPENDENT _Pragma("GCC ivdep")
#endif

/* In memory elements may lie at any address. */
#define UNALIGNED(type) __attribute__((aligned(1), may_alias)) type

#define KERNEL(name, type, combined) \
	static void name(void *into_, const void *a_, const void *b_, size_t count) \
	{ \
		UNALIGNED(type) *into = into_; \
		const UNALIGNED(type) *a = a_, *b = b_; \
		INDEPENDENT for (size_t i = 0; i < count; i++) \
		{ \
			const type x = a[i], y = b[i]; \
			into[i] = (type)(combined); \
		} \
	}

#define AVERAGE(name, type, divided) \
	static void name(void *into_, size_t count, int by) \
	{ \
		UNALIGNED(type) *into = into_; \
		INDEPENDENT for (size_t i = 0; i < count; i++) \
		{ \
			const type x = into[i]; \
			into[i] = (type)(divided); \
		} \
	}

/* ---- Integers: signed sums and products are unsigned ones, which wrap ---- */

#define INTEGER(bits) \
	KERNEL(sum##bits, uint##bits##_t, x + y) \
	KERNEL(prod##bits, uint##bits##_t, (x * y)) \
	KERNEL(u##bits##_min, uint##bits##_t, x < y ? x : y) \
	KERNEL(u##bits##_max, uint##bits##_t, x > y ? x : y) \
	KERNEL(i##bits##_min, int##bits##_t, x < y ? x : y) \
	KERNEL(i##bits##_max, int##bits##_t, x > y ? x : y) \
	AVERAGE(u##bits##_avg, uint##bits##_t, x / (unsigned)by) \
	AVERAGE(i##bits##_avg, int##bits##_t, x / by)

INTEGER(8)
INTEGER(32)
INTEGER(64)

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
AVERAGE(f32_avg, float, x / (float)by)

KERNEL(f64_sum, double, x + y)
KERNEL(f64_prod, double, (x * y))
KERNEL(f64_min, double, f64_lesser(x, y))
KERNEL(f64_max, double, f64_greater(x, y))
AVERAGE(f64_avg, double, x / by)

/* ---- bf16 and f16 ---- */

#define HALF(type) \
	KERNEL(type##_sum, uint16_t, type##_narrow(type##_widen(x) + type##_widen(y))) \
	KERNEL(type##_prod, uint16_t, type##_narrow(type##_widen(x) * type##_widen(y))) \
	KERNEL(type##_min, uint16_t, type##_narrow(f32_lesser(type##_widen(x), type##_widen(y)))) \
	KERNEL(type##_max, uint16_t, type##_narrow(f32_greater(type##_widen(x), type##_widen(y)))) \
	AVERAGE(type##_avg, uint16_t, type##_narrow(type##_widen(x) / (float)by))

HALF(bf16)

#ifndef LANES
HALF(f16)
#else
/* With instructions for the conversions, which compilers do not find by themselves. */

#define F16_KERNEL(name, combined) \
	static void name(void *into_, const void *a_, const void *b_, size_t count) \
	{ \
		UNALIGNED(uint16_t) *into = into_; \
		const UNALIGNED(uint16_t) *a = a_, *b = b_; \
		size_t i = 0; \
		for (; count - i >= LANES; i += LANES) { \
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

static void f16_avg(void *into_, size_t count, int by)
{
	UNALIGNED(uint16_t) *into = into_;
	size_t i = 0;

	for (; count - i >= LANES; i += LANES)
		narrow(into + i, widen(into + i) / (float)by);
	for (; i < count; i++)
		into[i] = narrow_one(widen_one(into[i]) / (float)by);
}
#endif

/* ---- The table ---- */

#define OPS(sum, prod, min, max) \
	{ \
		[RONDO_SUM] = (sum), [RONDO_PROD] = (prod), [RONDO_MIN] = (min), \
		[RONDO_MAX] = (max), [RONDO_AVG] = (sum) \
	}
#define INTEGER_OPS(sign, bits) OPS(sum##bits, prod##bits, sign##bits##_min, sign##bits##_max)
#define FLOAT_OPS(type) OPS(type##_sum, type##_prod, type##_min, type##_max)

const struct rd_reduce_variant VARIANT = {
	.name = VARIANT_NAME,
	.reduce = {
		[RONDO_I8] = INTEGER_OPS(i, 8),
		[RONDO_U8] = INTEGER_OPS(u, 8),
		[RONDO_I32] = INTEGER_OPS(i, 32),
		[RONDO_U32] = INTEGER_OPS(u, 32),
		[RONDO_I64] = INTEGER_OPS(i, 64),
		[RONDO_U64] = INTEGER_OPS(u, 64),
		[RONDO_F16] = FLOAT_OPS(f16),
		[RONDO_BF16] = FLOAT_OPS(bf16),
		[RONDO_F32] = FLOAT_OPS(f32),
		[RONDO_F64] = FLOAT_OPS(f64),
	},
	.average = {
		[RONDO_I8] = i8_avg,
		[RONDO_U8] = u8_avg,
		[RONDO_I32] = i32_avg,
		[RONDO_U32] = u32_avg,
		[RONDO_I64] = i64_avg,
		[RONDO_U64] = u64_avg,
		[RONDO_F16] = f16_avg,
		[RONDO_BF16] = bf16_avg,
		[RONDO_F32] = f32_avg,
		[RONDO_F64] = f64_avg,
	},
};
