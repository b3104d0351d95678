#include "cuda_calls.h"

#include <dlfcn.h>

#define THREADS 256
/* CU_FUNC_ATTRIBUTE_NUM_REGS */
#define NUM_REGS 4

bool cuda_calls_find(struct cuda_calls *cuda)
{
	void *driver = dlopen("libcuda.so.1", RTLD_LAZY);
	struct {
		void *at;
		const char *name;
	} wants[] = { { &cuda->init, "cuInit" }, { &cuda->retain, "cuDevicePrimaryCtxRetain" },
		{ &cuda->set, "cuCtxSetCurrent" }, { &cuda->attribute, "cuDeviceGetAttribute" },
		{ &cuda->alloc, "cuMemAlloc_v2" }, { &cuda->free, "cuMemFree_v2" },
		{ &cuda->alloc_host, "cuMemAllocHost_v2" }, { &cuda->free_host, "cuMemFreeHost" },
		{ &cuda->pin, "cuMemHostRegister_v2" }, { &cuda->unpin, "cuMemHostUnregister" },
		{ &cuda->get_handle, "cuIpcGetMemHandle" },
		{ &cuda->open_handle, "cuIpcOpenMemHandle_v2" },
		{ &cuda->close_handle, "cuIpcCloseMemHandle" }, { &cuda->copy, "cuMemcpyAsync" },
		{ &cuda->stream_create, "cuStreamCreate" },
		{ &cuda->stream_destroy, "cuStreamDestroy_v2" },
		{ &cuda->stream_synchronize, "cuStreamSynchronize" },
		{ &cuda->stream_query, "cuStreamQuery" },
		{ &cuda->wait_value, "cuStreamWaitValue32_v2" },
		{ &cuda->write_value, "cuStreamWriteValue32_v2" },
		{ &cuda->host_call, "cuLaunchHostFunc" }, { &cuda->event_create, "cuEventCreate" },
		{ &cuda->event_destroy, "cuEventDestroy_v2" },
		{ &cuda->event_record, "cuEventRecord" },
		{ &cuda->wait_event, "cuStreamWaitEvent" }, { &cuda->load, "cuModuleLoadData" },
		{ &cuda->find, "cuModuleGetFunction" },
		{ &cuda->kernel_attribute, "cuFuncGetAttribute" },
		{ &cuda->occupancy, "cuOccupancyMaxActiveBlocksPerMultiprocessor" },
		{ &cuda->launch, "cuLaunchKernel" }, { &cuda->locked, "emulated_locked" },
		{ &cuda->imports, "emulated_imports" },
		{ &cuda->parameter_bytes, "emulated_parameter_bytes" } };

	if (!driver)
		return false;
	for (size_t i = 0; i < sizeof(wants) / sizeof(*wants); i++) {
		*(void **)wants[i].at = dlsym(driver, wants[i].name);
		if (!*(void **)wants[i].at)
			return false;
	}
	return true;
}

/* Loaded now, and not when it is first run: that waits for all streams. */
static int load_kernel(struct cuda_calls *cuda, void *module, const char *name, void **kernel)
{
	int registers, err = cuda->find(kernel, module, name);

	return err ? err : cuda->kernel_attribute(&registers, NUM_REGS, *kernel);
}

int cuda_calls_open(struct cuda_calls *cuda, int device)
{
	/* A fatbin begins with it. */
	const uint32_t image = 0xba55ed50;
	void *context, *module;
	int err = cuda->init(0);

	if (!err)
		err = cuda->retain(&context, device);
	if (!err)
		err = cuda->set(context);
	if (!err)
		err = cuda->load(&module, &image);
	if (!err)
		err = load_kernel(cuda, module, "program_add", &cuda->add);
	return err ? err : load_kernel(cuda, module, "program_spin", &cuda->spin);
}

static int launch(
	const struct cuda_calls *cuda, void *kernel, void *stream, int blocks, void **parameters)
{
	return cuda->launch(
		kernel, (unsigned)blocks, 1, 1, THREADS, 1, 1, 0, stream, parameters, NULL);
}

int cuda_add(const struct cuda_calls *cuda, void *stream, int blocks, float *at, unsigned count,
	float by)
{
	return launch(cuda, cuda->add, stream, blocks, (void *[]){ &at, &count, &by });
}

int cuda_spin(
	const struct cuda_calls *cuda, void *stream, int blocks, uint32_t *started, uint32_t *stop)
{
	return launch(cuda, cuda->spin, stream, blocks, (void *[]){ &started, &stop });
}
