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
