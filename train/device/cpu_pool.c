/* Max-pooling on the CPU: plane by plane through the kernels of cpu_images.h. */
#include "train/device/cpu.h"
#include "train/device/cpu_images.h"

static size_t out_plane_of(const struct planes *in)
{
	return (size_t)(in->rows / 2) * (in->columns / 2);
}

void cpu_max_pool(struct device *device, const struct planes *in_shape, const float *in, float *out,
	uint8_t *index)
{
	const struct image_kernels *kernels = cpu_images();
	size_t in_plane = (size_t)in_shape->rows * in_shape->columns;
	size_t out_plane = out_plane_of(in_shape);
	(void)device;
	for (int p = 0; p < in_shape->batch * in_shape->channels; p++)
		kernels->max_pool(in_shape->rows, in_shape->columns, in + p * in_plane,
			out + p * out_plane, index + p * out_plane);
}

void cpu_max_pool_grad(struct device *device, const struct planes *in_shape, const uint8_t *index,
	const float *out_grad, float *in_grad)
{
	const struct image_kernels *kernels = cpu_images();
	size_t in_plane = (size_t)in_shape->rows * in_shape->columns;
	size_t out_plane = out_plane_of(in_shape);
	(void)device;
	for (int p = 0; p < in_shape->batch * in_shape->channels; p++)
		kernels->max_pool_grad(in_shape->rows, in_shape->columns, index + p * out_plane,
			out_grad + p * out_plane, in_grad + p * in_plane);
}
