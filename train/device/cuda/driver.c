#include "train/device/cuda/driver.h"

#include <dlfcn.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>

#include "train/base/fail.h"

struct cuda_functions cuda;

/* The name of a function in these headers' version of the interface. */
#define NAME(name) #name

#define FIND(name) \
	*(void **)&cuda.name = dlsym(library, NAME(name)); \
	if (!cuda.name) \
		missing = NAME(name);

static int find_driver(void)
{
	const char *missing = NULL;
	void *library = dlopen("libcuda.so.1", RTLD_LAZY | RTLD_LOCAL);
	if (!library)
		return fail("--device cuda: there is no CUDA driver here (libcuda.so.1): install "
			    "NVIDIA's, or train with --device cpu");
	TRAIN_CUDA_FUNCTIONS(FIND)
	if (missing)
		return fail("--device cuda: the CUDA driver is too old (it has no %s): update it, "
			    "or train with --device cpu",
			missing);
	return 0;
}

/* The version of the headers, or an older one: these functions are the same in all. */
static void *open_cublas(void)
{
	void *library = NULL;
	for (int version = CUBLAS_VER_MAJOR; !library && version >= 11; version--) {
		char name[32];
		snprintf(name, sizeof(name), "libcublas.so.%d", version);
		library = dlopen(name, RTLD_LAZY | RTLD_LOCAL);
	}
	return library;
}

static int find_cublas(void)
{
	const char *missing = NULL;
	void *library = open_cublas();
	if (!library)
		return fail("--device cuda: there is no cuBLAS here (libcublas.so.%d): install it, "
			    "or have LD_LIBRARY_PATH name the directory it lies in",
			CUBLAS_VER_MAJOR);
	TRAIN_CUBLAS_FUNCTIONS(FIND)
	if (missing)
		return fail("--device cuda: this cuBLAS has no %s", missing);
	return 0;
}

int cuda_load(void)
{
	/* Ranks may be threads. */
	static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
	static bool loaded;
	pthread_mutex_lock(&lock);
	int err = loaded ? 0 : find_driver();
	if (!err && !loaded)
		err = find_cublas();
	loaded = !err;
	pthread_mutex_unlock(&lock);
	return err;
}
