#include "driver.h"

#include <dlfcn.h>
#include <pthread.h>
#include <stdio.h>

#include "error.h"

#define LIBRARY "libcuda.so.1"

struct rd_driver driver;

static int device_count;
static char missing[RD_STORY_SIZE];

/* What the driver's function is called in this header's version of its interface. */
#define NAME(name) #name

static bool find_functions(void *library)
{
#define FIND(name) \
	*(void **)&driver.name = dlsym(library, NAME(name)); \
	if (!driver.name) { \
		snprintf(missing, sizeof(missing), \
			"the CUDA driver is too old: it has no %s (this build wants CUDA %d's)", \
			NAME(name), CUDA_VERSION / 1000); \
		return false; \
	}
	RD_DRIVER_FUNCTIONS(FIND)
#undef FIND
	return true;
}

static void count_devices(void)
{
	CUresult result = driver.cuInit(0);
	const char *text = "unknown error";

	if (result == CUDA_SUCCESS)
		result = driver.cuDeviceGetCount(&device_count);
	if (result == CUDA_SUCCESS && device_count > 0)
		return;
	device_count = 0;
	if (result == CUDA_SUCCESS || result == CUDA_ERROR_NO_DEVICE) {
		snprintf(missing, sizeof(missing),
			"the CUDA driver sees no device (look at nvidia-smi, and at "
			"CUDA_VISIBLE_DEVICES)");
		return;
	}
	driver.cuGetErrorString(result, &text);
	snprintf(missing, sizeof(missing), "the CUDA driver does not start: %s", text);
}

static void load(void)
{
	void *library = dlopen(LIBRARY, RTLD_LAZY | RTLD_LOCAL);

	if (!library) {
		snprintf(missing, sizeof(missing),
			"there is no CUDA driver here (%s): install NVIDIA's", LIBRARY);
		return;
	}
	if (find_functions(library))
		count_devices();
}

int rd_driver_load(void)
{
	static pthread_once_t once = PTHREAD_ONCE_INIT;

	pthread_once(&once, load);
	if (device_count == 0)
		rd_fail(RONDO_UNSUPPORTED, "%s", missing);
	return device_count;
}

int rd_driver_check(CUresult result, const char *what)
{
	const char *text = "unknown error";

	if (result == CUDA_SUCCESS)
		return 0;
	driver.cuGetErrorString(result, &text);
	return rd_fail(result == CUDA_ERROR_OUT_OF_MEMORY ? RONDO_MEMORY : RONDO_SYSTEM,
		"cannot %s: %s (CUDA error %d)", what, text, (int)result);
}
