/*
 * An NVIDIA GPU as a device: cuBLAS for products, kernels.cu for the rest, one stream for each
 * track. All operations are queued; the host runs ahead until it needs a number, or a slot for a
 * put.
 */
#include <stdio.h>
#include <stdlib.h>

#include "train/base/fail.h"
#include "train/device/cuda/gpu.h"

static const char *const kernel_names[] = {
#define TRAIN_KERNEL(name) "train_" #name,
	TRAIN_KERNELS(TRAIN_KERNEL)
#undef TRAIN_KERNEL
};

/* kernels.cu for all architectures. */
extern const unsigned char train_cuda_kernels[];

static void gpu_destroy(struct device *device)
{
	struct gpu *gpu = (struct gpu *)device;
	gpu_wait(device);
	gpu_memory_close(gpu);
	if (gpu->blas)
		cuda.cublasDestroy(gpu->blas);
	gpu_tracks_close(gpu);
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
	.precision = gpu_precision,
	.product = gpu_product,
	.spread = gpu_spread,
	.column_sums = gpu_column_sums,
	.add = gpu_add,
	.scale = gpu_scale,
	.relu = gpu_relu,
	.relu_grad = gpu_relu_grad,
	.gelu = gpu_gelu,
	.gelu_grad = gpu_gelu_grad,
	.conv = gpu_conv,
	.conv_weight_grad = gpu_conv_weight_grad,
	.conv_in_grad = gpu_conv_in_grad,
	.norm_sums = gpu_norm_sums,
	.norm_moments = gpu_norm_moments,
	.norm_fixed = gpu_norm_fixed,
	.norm = gpu_norm,
	.norm_grad_sums = gpu_norm_grad_sums,
	.norm_weight_grad = gpu_norm_weight_grad,
	.norm_in_grad = gpu_norm_in_grad,
	.max_pool = gpu_max_pool,
	.max_pool_grad = gpu_max_pool_grad,
	.embed = gpu_embed,
	.embed_grad = gpu_embed_grad,
	.layer_norm = gpu_layer_norm,
	.layer_norm_grad = gpu_layer_norm_grad,
	.causal_softmax = gpu_causal_softmax,
	.causal_softmax_grad = gpu_causal_softmax_grad,
	.loss = gpu_loss,
	.loss_grad = gpu_loss_grad,
	.square_sum = gpu_square_sum,
	.clip_factor = gpu_clip_factor,
	.sgd = gpu_sgd,
	.adam = gpu_adam,
	.convert = gpu_convert,
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
	if (!gpu_check(gpu, cuda.cuInit(0), "start the driver") ||
		!gpu_check(gpu, cuda.cuDeviceGet(&gpu->handle, device->number), "find it") ||
		!gpu_check(gpu,
			cuda.cuDeviceGetName(device->name, sizeof(device->name), gpu->handle),
			"ask its name") ||
		!gpu_check(gpu, cuda.cuDevicePrimaryCtxRetain(&context, gpu->handle), "use it"))
		return false;
	if (gpu_check(gpu, cuda.cuCtxPushCurrent(context), "use it"))
		gpu->context = context;
	else
		cuda.cuDevicePrimaryCtxRelease(gpu->handle);
	return gpu->context;
}

/* The query of an attribute loads a kernel now, before communication: see warm_up(). */
static bool load_kernels(struct gpu *gpu)
{
	bool well = gpu_check(
		gpu, cuda.cuModuleLoadData(&gpu->module, train_cuda_kernels), "load the kernels");
	for (int k = 0, registers; well && k < KERNEL_COUNT; k++)
		well = gpu_check(gpu,
			       cuda.cuModuleGetFunction(
				       &gpu->kernels[k], gpu->module, kernel_names[k]),
			       "find a kernel") &&
		       gpu_check(gpu,
			       cuda.cuFuncGetAttribute(
				       &registers, CU_FUNC_ATTRIBUTE_NUM_REGS, gpu->kernels[k]),
			       "load a kernel");
	return well;
}

static bool start_blas(struct gpu *gpu)
{
	return gpu_check_blas(gpu, cuda.cublasCreate(&gpu->blas), "start cuBLAS") &&
	       gpu_check_blas(gpu, cuda.cublasSetStream(gpu->blas, gpu->tracks[COMPUTATION]),
		       "start cuBLAS");
}

/* The GPUs that Rondo finds, by its numbers. */
static int count_gpus(int *count)
{
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
	gpu->precision = RONDO_F32;
	if (open_context(gpu) && load_kernels(gpu) && gpu_tracks_open(gpu) &&
		gpu_memory_open(gpu) && start_blas(gpu)) {
		*out = &gpu->base;
		return 0;
	}
	err = device_failure(&gpu->base);
	gpu_destroy(&gpu->base);
	return err;
}
