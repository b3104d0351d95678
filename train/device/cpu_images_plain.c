/* Kernels for any processor, in the compiler's vectors of 4 floats. */
#include <string.h>

#include "train/device/cpu_images.h"

#define VARIANT cpu_images_plain
#define WIDTH 4

/* As for 16 registers. */
#define CONV_CHANNELS 4
#define CONV_VECTORS 2
#define GRAD_CHANNELS 2
#define GRAD_TAPS 5

typedef float floats __attribute__((vector_size(16)));
typedef double doubles __attribute__((vector_size(16)));
typedef int32_t integers __attribute__((vector_size(16)));

static inline floats load(const float *from)
{
	floats x;
	memcpy(&x, from, sizeof(x));
	return x;
}

/* Elements first to end - 1, and zeros elsewhere, which it does not read. */
static inline floats load_part(const float *from, int first, int end)
{
	floats x = { 0 };
	for (int i = first; i < end; i++)
		x[i] = from[i];
	return x;
}

static inline void store(float *to, floats x)
{
	memcpy(to, &x, sizeof(x));
}

/* The first count elements. */
static inline void store_part(float *to, floats x, int count)
{
	for (int i = 0; i < count; i++)
		to[i] = x[i];
}

/* In a register, where compilers would read memory again. */
static inline floats keep(floats x)
{
	return x;
}

static inline floats all(float x)
{
	return (floats){ x, x, x, x };
}

static inline floats add(floats a, floats b)
{
	return a + b;
}

static inline floats multiply_add(floats a, floats b, floats c)
{
	return a * b + c;
}

static inline float sum_of(floats x)
{
	return (x[0] + x[1]) + (x[2] + x[3]);
}

static inline doubles low_half(floats x)
{
	return (doubles){ x[0], x[1] };
}

static inline doubles high_half(floats x)
{
	return (doubles){ x[2], x[3] };
}

/* x where sign > 0, else 0. */
static inline floats where_positive(floats sign, floats x)
{
	return (floats)((sign > 0) & (integers)x);
}

/* NaN stays. */
static inline floats at_least_zero(floats x)
{
	return (floats)(~(x < 0) & (integers)x);
}

/* Elements 0, 2, 4 ... of a and b. */
static inline floats even_of(floats a, floats b)
{
	return (floats){ a[0], a[2], b[0], b[2] };
}

static inline floats odd_of(floats a, floats b)
{
	return (floats){ a[1], a[3], b[1], b[3] };
}

/* The first half, and the second, of even and odd elements in turns. */
static inline floats zip_first(floats even, floats odd)
{
	return (floats){ even[0], odd[0], even[1], odd[1] };
}

static inline floats zip_second(floats even, floats odd)
{
	return (floats){ even[2], odd[2], even[3], odd[3] };
}

static inline integers load_bytes(const uint8_t *from, int count)
{
	integers x = { 0 };
	for (int i = 0; i < count; i++)
		x[i] = from[i];
	return x;
}

static inline void store_bytes(uint8_t *to, integers x, int count)
{
	for (int i = 0; i < count; i++)
		to[i] = (uint8_t)x[i];
}

#include "train/device/cpu_images_kernels.h"
