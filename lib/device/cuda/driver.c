#include "device/cuda/driver.h"

#include <dlfcn.h>
#include <pthread.h>
#include <stdio.h>

#include "base/descriptor.h"
#include "base/error.h"
#include "base/log.h"

#define LIBRARY "libcuda.so.1"

struct rd_driver rd_driver;

static int device_count;
static char missing[RD_REASON_SIZE];

/* The name of a driver's function in this header's version of its interface. */
#define NAME(name) #name

static bool find_functions(void *library)
{
#define FIND(name) \
	*(void **)&rd_driver.name = dlsym(library, NAME(name)); \
	if (!rd_driver.name) { \
		snprintf(missing, sizeof(missing), \
			"the CUDA driver is too old: it has no %s (this build wants CUDA %d's)", \
			NAME(name), CUDA_VERSION / 1000); \
		return false; \
	}
	RD_DRIVER_FUNCTIONS(FIND)
#undef FIND
	return true;
}

/* The device's compute capability: 75 is 7.5. 0 where the driver returns none. */
static int capability(int number)
{
	CUdevice device;
	int major = 0, minor = 0;

	if (rd_driver.cuDeviceGet(&device, number) != CUDA_SUCCESS ||
		rd_driver.cuDeviceGetAttribute(&major, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR,
			device) != CUDA_SUCCESS ||
		rd_driver.cuDeviceGetAttribute(&minor, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR,
			device) != CUDA_SUCCESS)
		return 0;
	return 10 * major + minor;
}

int rd_driver_serves(int number)
{
	int found = capability(number);

	if (found >= RONDO_FIRST_ARCHITECTURE)
		return 0;
	return rd_fail(RONDO_UNSUPPORTED,
		"device %d has compute capability %d.%d, and this build's kernels need %d.%d",
		number, found / 10, found % 10, RONDO_FIRST_ARCHITECTURE / 10,
		RONDO_FIRST_ARCHITECTURE % 10);
}

/* The numbers are CUDA's: one that cannot be used leaves no gap but where it is the last. */
static void leave_out_unserved(int count)
{
	int unserved = 0;

	for (int number = 0; number < count; number++) {
		if (rd_driver_serves(number) == 0)
			device_count = number + 1;
		else if (unserved++ == 0)
			snprintf(missing, sizeof(missing), "%s", rondo_last_error());
	}
	if (unserved > 0)
		rd_log(RD_INFO, RD_PROBE, "%d of %d GPUs are not used: %s", unserved, count,
			missing);
}

static void count_devices(void)
{
	int taken = rd_stderr_fill(), count = 0;
	CUresult result = rd_driver.cuInit(0);
	const char *text = "unknown error";

	rd_stderr_free(taken);

	if (result == CUDA_SUCCESS)
		result = rd_driver.cuDeviceGetCount(&count);
	if (result == CUDA_SUCCESS && count > 0) {
		leave_out_unserved(count);
		return;
	}
	if (result == CUDA_SUCCESS || result == CUDA_ERROR_NO_DEVICE) {
		snprintf(missing, sizeof(missing),
			"the CUDA driver sees no device (look at nvidia-smi, and at "
			"CUDA_VISIBLE_DEVICES)");
		return;
	}
	rd_driver.cuGetErrorString(result, &text);
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
	rd_driver.cuGetErrorString(result, &text);
	return rd_fail(result == CUDA_ERROR_OUT_OF_MEMORY ? RONDO_MEMORY : RONDO_SYSTEM,
		"cannot %s: %s (CUDA error %d)", what, text, (int)result);
}
