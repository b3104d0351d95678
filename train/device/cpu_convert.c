/* Types of numbers on the CPU. */
#include "train/device/cpu.h"
#include "train/device/half.h"

static void narrow(size_t count, const float *from, rondo_type type, uint16_t *to)
{
	if (type == RONDO_BF16)
		for (size_t i = 0; i < count; i++)
			to[i] = bf16_of(from[i]);
	else
		for (size_t i = 0; i < count; i++)
			to[i] = f16_of(from[i]);
}

static void widen(size_t count, const uint16_t *from, rondo_type type, float *to)
{
	if (type == RONDO_BF16)
		for (size_t i = 0; i < count; i++)
			to[i] = f32_of_bf16(from[i]);
	else
		for (size_t i = 0; i < count; i++)
			to[i] = f32_of_f16(from[i]);
}

void cpu_convert(struct device *device, size_t count, rondo_type from_type, const void *from,
	rondo_type to_type, void *to)
{
	(void)device;
	if (from_type == RONDO_F32)
		narrow(count, from, to_type, to);
	else
		widen(count, from, from_type, to);
}
