/* Rows and elements on the CPU. */
#include <string.h>

#include "train/device/cpu.h"
#include "train/device/cpu_elements.h"

void cpu_spread(struct device *device, int rows, int columns, const float *row, float *out)
{
	(void)device;
	for (int r = 0; r < rows; r++)
		memcpy(out + (size_t)r * columns, row, columns * sizeof(float));
}

void cpu_column_sums(struct device *device, int rows, int columns, const float *in, float *sums)
{
	(void)device;
	memset(sums, 0, columns * sizeof(float));
	for (int r = 0; r < rows; r++)
		cpu_elements()->add(columns, sums, in + (size_t)r * columns, sums);
}

void cpu_add(struct device *device, size_t count, const float *a, const float *b, float *out)
{
	(void)device;
	cpu_elements()->add(count, a, b, out);
}

void cpu_scale(struct device *device, size_t count, float factor, float *values)
{
	(void)device;
	for (size_t i = 0; i < count; i++)
		values[i] *= factor;
}

void cpu_relu(struct device *device, size_t count, const float *in, float *out)
{
	(void)device;
	cpu_elements()->relu(count, in, out);
}

void cpu_relu_grad(struct device *device, size_t count, const float *out, const float *out_grad,
	float *in_grad)
{
	(void)device;
	cpu_elements()->relu_grad(count, out, out_grad, in_grad);
}
