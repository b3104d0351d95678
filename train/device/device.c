#include "train/device/device.h"

#include "train/base/fail.h"

#if !TRAIN_HAS_CUDA
int cuda_create(struct device **device, int local_rank)
{
	(void)local_rank;
	*device = NULL;
	return fail("--device cuda: this rondo-train was built without CUDA: build it where the "
		    "CUDA toolkit and cuBLAS's header are (cmake says what it misses), or train "
		    "with --device cpu");
}
#endif

int device_create(struct device **device, enum device_kind kind, int local_rank)
{
	return kind == DEVICE_CUDA ? cuda_create(device, local_rank) : cpu_create(device);
}

void device_destroy(struct device *device)
{
	if (device)
		device->ops->destroy(device);
}

int device_failure(const struct device *device)
{
	return device->error ? fail("%s", device->reason) : 0;
}

void device_multiply(struct device *device, int rows, int columns, int inner, const float *a,
	enum layout a_layout, const float *b, enum layout b_layout, float beta, float *c)
{
	const struct product product = {
		.batch = 1,
		.rows = rows,
		.columns = columns,
		.inner = inner,
		.a = { .data = (float *)a,
			.layout = a_layout,
			.pitch = a_layout == AS_IS ? inner : rows },
		.b = { .data = (float *)b,
			.layout = b_layout,
			.pitch = b_layout == AS_IS ? columns : inner },
		.c = { .data = c, .pitch = columns },
		.alpha = 1,
		.beta = beta,
	};
	device->ops->product(device, &product);
}
