/* Which devices this process has, and which memory is theirs. */
#include "device/device.h"

#include <dlfcn.h>
#include <link.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"

#define DRIVER "libcuda.so.1"
/* CUDA_ERROR_NOT_INITIALIZED. */
#define NOT_INITIALIZED 3

/* ---- The choice ---------------------------------------------------------------------------- */

int rd_device_check(const char *text)
{
	if (!*text || !strcmp(text, "auto") || !strcmp(text, "cuda") || !strcmp(text, "none"))
		return 0;
	return rd_fail(RONDO_SETTING, "RONDO_DEVICE is \"%.40s\": choose auto, cuda or none", text);
}

static const char *device_setting(void)
{
	const char *text = getenv("RONDO_DEVICE");

	return text && *text ? text : "auto";
}

static int read_loads(struct dl_phdr_info *info, size_t size, void *loads)
{
	(void)size;
	*(unsigned long long *)loads = info->dlpi_adds;
	return 1;
}

/* cuDeviceGetCount() of the driver that the process has loaded, which then stays; NULL: none.
   dlopen() searches all its folders, also for a library that it may not load. So this asks again
   only when the process has loaded something since. */
static int (*loaded_driver(void))(int *)
{
	static _Atomic(int (*)(int *)) found;
	static _Atomic unsigned long long without;
	unsigned long long loads = 0;
	int (*count)(int *) = found;
	void *library;

	if (count)
		return count;
	dl_iterate_phdr(read_loads, &loads);
	if (loads == without)
		return NULL;
	library = dlopen(DRIVER, RTLD_LAZY | RTLD_NOLOAD);
	*(void **)&count = library ? dlsym(library, "cuDeviceGetCount") : NULL;
	if (count)
		found = count;
	else
		without = loads;
	return count;
}

/* Whether the program uses the driver: somebody has called cuInit(). NVML, too, loads it (its
   version 580), and does not. */
static bool driver_is_used(void)
{
	int (*count)(int *) = loaded_driver();
	int devices;

	return count && count(&devices) != NOT_INITIALIZED;
}

#if RONDO_HAS_CUDA
static const struct rd_device_ops *cuda(void)
{
	return rd_cuda.count() > 0 ? &rd_cuda : NULL;
}
#else
static const struct rd_device_ops *cuda(void)
{
	rd_fail(RONDO_UNSUPPORTED,
		"this build of Rondo has no CUDA, and handles host memory alone: build it where "
		"the CUDA toolkit is, with RONDO_CUDA=ON");
	return NULL;
}
#endif

static const struct rd_device_ops *choose(bool load)
{
	const char *text = device_setting();

	if (rd_device_check(text))
		return NULL;
	if (!strcmp(text, "none")) {
		rd_fail(RONDO_UNSUPPORTED, "RONDO_DEVICE is \"none\": no device is used");
		return NULL;
	}
	if (!load && strcmp(text, "cuda") && !driver_is_used())
		return NULL;
	return cuda();
}

const struct rd_device_ops *rd_device(bool load)
{
	static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
	static _Atomic(const struct rd_device_ops *) chosen;
	const struct rd_device_ops *ops = chosen;

	if (ops)
		return ops;
	pthread_mutex_lock(&lock);
	ops = chosen;
	if (!ops)
		chosen = ops = choose(load);
	pthread_mutex_unlock(&lock);
	return ops;
}

bool rd_device_met(void)
{
	return rd_device(false) || driver_is_used();
}

/* ---- Captures ------------------------------------------------------------------------------ */

int rd_device_check_capture(const struct rd_device_ops *ops, void *stream, const char *function)
{
	if (ops->stream_captures(stream) != RD_CAPTURE_INVALIDATED)
		return 0;
	return rd_fail(RONDO_INVALID,
		"%s: the capture of the stream was invalidated by an earlier error: end it with "
		"cudaStreamEndCapture(), and capture again",
		function);
}

/* ---- Whose memory it is -------------------------------------------------------------------- */

/* CUDA's memory where Rondo uses no device, by what the program has brought in; without the
   toolkit's header: cuPointerGetAttribute(), CU_POINTER_ATTRIBUTE_MEMORY_TYPE (2), which is
   CU_MEMORYTYPE_DEVICE (2). Looked up once: the driver stays. */
static bool is_unknown_device_memory(const void *at)
{
	static _Atomic(int (*)(void *, int, unsigned long long)) found;
	int (*query)(void *, int, unsigned long long) = found;
	unsigned memory_type = 0;

	if (!query) {
		void *library = dlopen(DRIVER, RTLD_LAZY | RTLD_NOLOAD);

		*(void **)&query = library ? dlsym(library, "cuPointerGetAttribute") : NULL;
		found = query;
	}
	return query && !query(&memory_type, 2, (unsigned long long)(uintptr_t)at) &&
	       memory_type == 2;
}

bool rd_is_device_memory(const void *at, struct rd_allocation *allocation)
{
	const struct rd_device_ops *ops = at ? rd_device(false) : NULL;

	if (ops)
		return ops->find(at, allocation);
	if (!at || !is_unknown_device_memory(at))
		return false;
	*allocation = (struct rd_allocation){ .device = -1 };
	return true;
}
