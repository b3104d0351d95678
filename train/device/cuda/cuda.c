/*
 * An NVIDIA GPU as a device: cuBLAS for products, kernels.cu for the rest, one stream for each
 * track. All operations are queued; the host runs ahead until it needs a number, or a slot for a
 * put.
 */
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "train/device/device.h"
#include "train/device/cuda/driver.h"
#include "train/base/fail.h"
#include "train/device/cuda/kernels.h"

/* The most blocks of a grid: more would only queue. */
#define BLOCKS_MAX 1024

/* Puts under way at most: the images and labels of two steps. */
#define SLOTS 4

/* Bytes of one copy of a get. */
#define LANDING_SIZE (256 << 10)

enum kernel {
#define TRAIN_KERNEL(name) KERNEL_##name,
	TRAIN_KERNELS(TRAIN_KERNEL)
#undef TRAIN_KERNEL
		KERNEL_COUNT
};

static const char *const kernel_names[] = {
#define TRAIN_KERNEL(name) "train_" #name,
	TRAIN_KERNELS(TRAIN_KERNEL)
#undef TRAIN_KERNEL
};

/* Host memory that the GPU copies from. */
struct slot {
	void *memory;
	size_t size;
	CUevent copied;
};

struct gpu {
	struct device base;
	CUdevice handle;
	CUcontext
		context; /* the primary one, which rondo uses too; current from here to destroy() */
	CUmodule module;
	CUfunction kernels[KERNEL_COUNT];
	cublasHandle_t blas;
	CUstream tracks[2];
	CUevent passed[2]; /* the end of a track when the other joined it last */
	CUevent *moments; /* [moment_count] */
	int moment_count;
	struct slot slots[SLOTS];
	unsigned puts;
	void *landing; /* [LANDING_SIZE] of pinned memory, for gets */
};

/* kernels.cu for all architectures. */
extern const unsigned char train_cuda_kernels[];

/* ---- Failures ---- */

static void stick(struct gpu *gpu, const char *what, const char *text, int number)
{
	struct device *device = &gpu->base;
	if (device->error)
		return;
	snprintf(device->reason, sizeof(device->reason), "GPU %d (%s): cannot %s: %s (error %d)",
		device->number, device->name, what, text, number);
	device->error = fail("%s", device->reason);
}

/* Records an error of the driver; true: no failure so far. */
static bool check(struct gpu *gpu, CUresult result, const char *what)
{
	const char *text = "unknown error";
	if (result != CUDA_SUCCESS) {
		cuda.cuGetErrorString(result, &text);
		stick(gpu, what, text, (int)result);
	}
	return !gpu->base.error;
}

static bool check_blas(struct gpu *gpu, cublasStatus_t status, const char *what)
{
	if (status != CUBLAS_STATUS_SUCCESS)
		stick(gpu, what, cuda.cublasGetStatusString(status), (int)status);
	return !gpu->base.error;
}

/* ---- Memory ---- */

static int gpu_wait(struct device *device)
{
	struct gpu *gpu = (struct gpu *)device;
	for (int track = 0; track < 2 && !device->error; track++)
		check(gpu, cuda.cuStreamSynchronize(gpu->tracks[track]), "compute");
	return device_failure(device);
}

static int gpu_alloc(struct device *device, void **memory, size_t size)
{
	/* Rondo allocates, so that ranks on one machine reach each other's gradients. */
	if (rondo_mem_alloc_on(memory, size, device->number))
		return fail("GPU %d (%s): %s", device->number, device->name, rondo_last_error());
	return 0;
}

static void gpu_free(struct device *device, void *memory)
{
	if (!memory)
		return;
	gpu_wait(device);
	rondo_mem_free(memory);
}

/* Gives a slot room for `size` bytes, after its last contents are on the GPU. */
static bool take_slot(struct gpu *gpu, struct slot *slot, size_t size)
{
	if (!check(gpu, cuda.cuEventSynchronize(slot->copied), "copy to it"))
		return false;
	if (size <= slot->size)
		return true;
	if (slot->memory)
		cuda.cuMemFreeHost(slot->memory);
	*slot = (struct slot){ .copied = slot->copied };
	if (!check(gpu, cuda.cuMemAllocHost(&slot->memory, size), "pin host memory for it"))
		return false;
	slot->size = size;
	return true;
}

/* To pin or unpin memory, the driver may hold its lock while it waits for the device. A bucket
   under way there waits for a peer, which may wait for a thread that needs the lock. */
static int gpu_reserve(struct device *device, size_t size)
{
	struct gpu *gpu = (struct gpu *)device;
	for (int s = 0; s < SLOTS && !device->error; s++)
		take_slot(gpu, &gpu->slots[s], size);
	return device_failure(device);
}

static void gpu_put(struct device *device, void *to, const void *from, size_t size)
{
	struct gpu *gpu = (struct gpu *)device;
	struct slot *slot = &gpu->slots[gpu->puts++ % SLOTS];
	CUstream stream = gpu->tracks[COMPUTATION];
	if (device->error || !size || !take_slot(gpu, slot, size))
		return;
	memcpy(slot->memory, from, size);
	if (check(gpu, cuda.cuMemcpyAsync((CUdeviceptr)to, (CUdeviceptr)slot->memory, size, stream),
		    "copy to it"))
		check(gpu, cuda.cuEventRecord(slot->copied, stream), "copy to it");
}

/* Copies through pinned memory: for other memory the driver may hold its lock while it waits for
   the computation. That may wait for a bucket, and the bucket for a thread that needs the lock. */
static int gpu_get(struct device *device, void *to, const void *from, size_t size)
{
	struct gpu *gpu = (struct gpu *)device;
	CUstream stream = gpu->tracks[COMPUTATION];
	for (size_t at = 0, part; at < size && !device->error; at += part) {
		part = size - at < LANDING_SIZE ? size - at : LANDING_SIZE;
		if (check(gpu,
			    cuda.cuMemcpyAsync((CUdeviceptr)gpu->landing, (CUdeviceptr)from + at,
				    part, stream),
			    "copy from it") &&
			check(gpu, cuda.cuStreamSynchronize(stream), "compute"))
			memcpy((char *)to + at, gpu->landing, part);
	}
	return gpu_wait(device);
}

static void gpu_copy(struct device *device, void *to, const void *from, size_t size)
{
	struct gpu *gpu = (struct gpu *)device;
	if (!device->error && size)
		check(gpu,
			cuda.cuMemcpyAsync(
				(CUdeviceptr)to, (CUdeviceptr)from, size, gpu->tracks[COMPUTATION]),
			"copy in its memory");
}

static void gpu_clear(struct device *device, void *memory, size_t size)
{
	struct gpu *gpu = (struct gpu *)device;
	if (!device->error && size)
		check(gpu,
			cuda.cuMemsetD8Async(
				(CUdeviceptr)memory, 0, size, gpu->tracks[COMPUTATION]),
			"clear memory");
}

/* ---- Layers ---- */

static void launch(struct gpu *gpu, enum kernel kernel, size_t blocks, void **parameters)
{
	if (gpu->base.error || !blocks)
		return;
	check(gpu,
		cuda.cuLaunchKernel(gpu->kernels[kernel],
			blocks < BLOCKS_MAX ? (unsigned)blocks : BLOCKS_MAX, 1, 1, TRAIN_THREADS, 1,
			1, 0, gpu->tracks[COMPUTATION], parameters, NULL),
		"run a kernel");
}

static size_t blocks_for(size_t threads)
{
	return (threads + TRAIN_THREADS - 1) / TRAIN_THREADS;
}

static cublasOperation_t order_of(const struct matrix *matrix)
{
	return matrix->layout == AS_IS ? CUBLAS_OP_N : CUBLAS_OP_T;
}

/*
 * cuBLAS is column-major, so our a[rows][inner] is its transpose there. So cuBLAS computes the
 * transpose of c: the transpose of b times that of a.
 */
static void gpu_product(struct device *device, const struct product *p)
{
	struct gpu *gpu = (struct gpu *)device;
	/* cuBLAS does not document a sum of nothing. */
	if (!p->inner && p->beta == 0) {
		for (int n = 0; n < p->batch; n++)
			gpu_clear(device, p->c.data + n * p->c.step,
				(size_t)p->rows * p->columns * sizeof(float));
		return;
	}
	for (int n = 0; n < p->batch && !device->error && p->rows && p->columns; n++)
		check_blas(gpu,
			cuda.cublasSgemm(gpu->blas, order_of(&p->b), order_of(&p->a), p->columns,
				p->rows, p->inner, &p->alpha, p->b.data + n * p->b.step, p->b.pitch,
				p->a.data + n * p->a.step, p->a.pitch, &p->beta,
				p->c.data + n * p->c.step, p->c.pitch),
			"multiply");
}

static void gpu_spread(struct device *device, int rows, int columns, const float *row, float *out)
{
	void *parameters[] = { &rows, &columns, &row, &out };
	launch((struct gpu *)device, KERNEL_spread, rows, parameters);
}

static void gpu_column_sums(
	struct device *device, int rows, int columns, const float *in, float *sums)
{
	void *parameters[] = { &rows, &columns, &in, &sums };
	launch((struct gpu *)device, KERNEL_column_sums,
		(columns + TRAIN_SUM_COLUMNS - 1) / TRAIN_SUM_COLUMNS, parameters);
}

static void gpu_relu(struct device *device, size_t count, const float *in, float *out)
{
	void *parameters[] = { &count, &in, &out };
	launch((struct gpu *)device, KERNEL_relu, blocks_for(count), parameters);
}

static void gpu_relu_grad(
	struct device *device, size_t count, const float *in, const float *out_grad, float *in_grad)
{
	void *parameters[] = { &count, &in, &out_grad, &in_grad };
	launch((struct gpu *)device, KERNEL_relu_grad, blocks_for(count), parameters);
}

/* ---- Softmax cross-entropy, optimizer ---- */

static void gpu_loss(struct device *device, int rows, int columns, const float *logits,
	const int32_t *labels, double *sums)
{
	void *parameters[] = { &rows, &columns, &logits, &labels, &sums };
	launch((struct gpu *)device, KERNEL_loss, 1, parameters);
}

static void gpu_loss_grad(struct device *device, int rows, int columns, const float *logits,
	const int32_t *labels, float scale, float *grad)
{
	void *parameters[] = { &rows, &columns, &logits, &labels, &scale, &grad };
	launch((struct gpu *)device, KERNEL_loss_grad, blocks_for(rows), parameters);
}

static void gpu_sgd(struct device *device, const struct sgd *sgd, size_t count, const float *grad,
	const float *factor, float *value, float *momentum)
{
	struct sgd step = *sgd;
	void *parameters[] = { &step, &count, &grad, &factor, &value, &momentum };
	launch((struct gpu *)device, KERNEL_sgd, blocks_for(count), parameters);
}

/* ---- Communication ---- */

static int gpu_stream(struct device *device, rondo_stream **stream)
{
	struct gpu *gpu = (struct gpu *)device;
	if (rondo_stream_wrap(stream, gpu->tracks[COMMUNICATION], device->number))
		return fail("GPU %d (%s): %s", device->number, device->name, rondo_last_error());
	return 0;
}

static int gpu_join(struct device *device, enum track track)
{
	struct gpu *gpu = (struct gpu *)device;
	enum track other = track == COMPUTATION ? COMMUNICATION : COMPUTATION;
	if (!device->error && check(gpu, cuda.cuEventRecord(gpu->passed[other], gpu->tracks[other]),
				      "order streams"))
		check(gpu, cuda.cuStreamWaitEvent(gpu->tracks[track], gpu->passed[other], 0),
			"order streams");
	return device_failure(device);
}

static bool make_event(struct gpu *gpu, CUevent *event, unsigned flags)
{
	return check(gpu, cuda.cuEventCreate(event, flags), "make an event");
}

static void drop_moments(struct gpu *gpu)
{
	for (int m = 0; m < gpu->moment_count; m++)
		cuda.cuEventDestroy(gpu->moments[m]);
	free(gpu->moments);
	gpu->moments = NULL;
	gpu->moment_count = 0;
}

static int gpu_moments(struct device *device, int count)
{
	struct gpu *gpu = (struct gpu *)device;
	drop_moments(gpu);
	gpu->moments = calloc(count, sizeof(*gpu->moments));
	if (!gpu->moments && count)
		return fail("out of memory for %d moments", count);
	while (gpu->moment_count < count &&
		make_event(gpu, &gpu->moments[gpu->moment_count], CU_EVENT_DEFAULT))
		gpu->moment_count++;
	return device_failure(device);
}

static void gpu_record(struct device *device, enum track track, int moment)
{
	struct gpu *gpu = (struct gpu *)device;
	if (!device->error)
		check(gpu, cuda.cuEventRecord(gpu->moments[moment], gpu->tracks[track]),
			"take the time");
}

static double gpu_between(struct device *device, int from, int to)
{
	struct gpu *gpu = (struct gpu *)device;
	CUevent start = gpu->moments[from], end = gpu->moments[to];
	float ms = 0;
	if (!device->error && check(gpu, cuda.cuEventSynchronize(start), "compute") &&
		check(gpu, cuda.cuEventSynchronize(end), "compute"))
		check(gpu, cuda.cuEventElapsedTime(&ms, start, end), "take the time");
	return 1e-3 * ms;
}

/* ---- Beginning and end ---- */

static void gpu_destroy(struct device *device)
{
	struct gpu *gpu = (struct gpu *)device;
	gpu_wait(device);
	drop_moments(gpu);
	for (int s = 0; s < SLOTS; s++) {
		if (gpu->slots[s].memory)
			cuda.cuMemFreeHost(gpu->slots[s].memory);
		if (gpu->slots[s].copied)
			cuda.cuEventDestroy(gpu->slots[s].copied);
	}
	if (gpu->landing)
		cuda.cuMemFreeHost(gpu->landing);
	if (gpu->blas)
		cuda.cublasDestroy(gpu->blas);
	for (int track = 0; track < 2; track++) {
		if (gpu->passed[track])
			cuda.cuEventDestroy(gpu->passed[track]);
		if (gpu->tracks[track])
			cuda.cuStreamDestroy(gpu->tracks[track]);
	}
	if (gpu->module)
		cuda.cuModuleUnload(gpu->module);
	if (gpu->context) {
		cuda.cuCtxPopCurrent(&(CUcontext){ NULL });
		cuda.cuDevicePrimaryCtxRelease(gpu->handle);
	}
	free(gpu);
}

static const struct device_ops gpu_ops = {
	.destroy = gpu_destroy,
	.alloc = gpu_alloc,
	.free = gpu_free,
	.reserve = gpu_reserve,
	.put = gpu_put,
	.get = gpu_get,
	.copy = gpu_copy,
	.clear = gpu_clear,
	.wait = gpu_wait,
	.product = gpu_product,
	.spread = gpu_spread,
	.column_sums = gpu_column_sums,
	.relu = gpu_relu,
	.relu_grad = gpu_relu_grad,
	.loss = gpu_loss,
	.loss_grad = gpu_loss_grad,
	.sgd = gpu_sgd,
	.stream = gpu_stream,
	.join = gpu_join,
	.moments = gpu_moments,
	.record = gpu_record,
	.between = gpu_between,
};

static bool open_context(struct gpu *gpu)
{
	struct device *device = &gpu->base;
	CUcontext context;
	if (!check(gpu, cuda.cuInit(0), "start the driver") ||
		!check(gpu, cuda.cuDeviceGet(&gpu->handle, device->number), "find it") ||
		!check(gpu, cuda.cuDeviceGetName(device->name, sizeof(device->name), gpu->handle),
			"ask its name") ||
		!check(gpu, cuda.cuDevicePrimaryCtxRetain(&context, gpu->handle), "use it"))
		return false;
	if (check(gpu, cuda.cuCtxPushCurrent(context), "use it"))
		gpu->context = context;
	else
		cuda.cuDevicePrimaryCtxRelease(gpu->handle);
	return gpu->context;
}

/* The query of an attribute loads a kernel now, before communication: see warm_up(). */
static bool load_kernels(struct gpu *gpu)
{
	bool well = check(
		gpu, cuda.cuModuleLoadData(&gpu->module, train_cuda_kernels), "load the kernels");
	for (int k = 0, registers; well && k < KERNEL_COUNT; k++)
		well = check(gpu,
			       cuda.cuModuleGetFunction(
				       &gpu->kernels[k], gpu->module, kernel_names[k]),
			       "find a kernel") &&
		       check(gpu,
			       cuda.cuFuncGetAttribute(
				       &registers, CU_FUNC_ATTRIBUTE_NUM_REGS, gpu->kernels[k]),
			       "load a kernel");
	return well;
}

static bool make_tracks(struct gpu *gpu)
{
	bool well = true;
	for (int track = 0; well && track < 2; track++)
		well = check(gpu, cuda.cuStreamCreate(&gpu->tracks[track], CU_STREAM_NON_BLOCKING),
			       "make a stream") &&
		       make_event(gpu, &gpu->passed[track], CU_EVENT_DISABLE_TIMING);
	for (int s = 0; well && s < SLOTS; s++)
		well = make_event(gpu, &gpu->slots[s].copied, CU_EVENT_DISABLE_TIMING);
	return well && check(gpu, cuda.cuMemAllocHost(&gpu->landing, LANDING_SIZE),
			       "pin host memory for it");
}

static bool start_blas(struct gpu *gpu)
{
	return check_blas(gpu, cuda.cublasCreate(&gpu->blas), "start cuBLAS") &&
	       check_blas(gpu, cuda.cublasSetStream(gpu->blas, gpu->tracks[COMPUTATION]),
		       "start cuBLAS");
}

/* The GPUs that Rondo finds, by its numbers. */
static int count_gpus(int *count)
{
	const char *setting = getenv("RONDO_DEVICE");
	if (setting && !strncmp(setting, "emulated", 8))
		return fail("--device cuda: RONDO_DEVICE is \"%s\", and pretended GPUs do not "
			    "compute: unset it",
			setting);
	*count = rondo_device_count();
	return *count ? 0
		      : fail("--device cuda: %s (--device cpu does without)", rondo_last_error());
}

int cuda_create(struct device **out, int local_rank)
{
	int count;
	*out = NULL;
	int err = cuda_load();
	if (!err)
		err = count_gpus(&count);
	if (err)
		return err;
	struct gpu *gpu = calloc(1, sizeof(*gpu));
	if (!gpu)
		return fail("out of memory");
	gpu->base = (struct device){
		.ops = &gpu_ops, .number = local_rank % count, .name = "not open"
	};
	if (open_context(gpu) && load_kernels(gpu) && make_tracks(gpu) && start_blas(gpu)) {
		*out = &gpu->base;
		return 0;
	}
	err = device_failure(&gpu->base);
	gpu_destroy(&gpu->base);
	return err;
}
