/*
 * An emulated libcublas, on top of the emulated driver: products by OpenBLAS, in the order of the
 * handle's stream. It refuses what cuBLAS refuses of train/device/cuda/cuda.c. Each shape
 * of a product has code of its own, which is loaded when it comes first.
 */
#include <cblas.h>
#include <cublas_v2.h>
#include <cuda.h>
#include <stdbool.h>
#include <stdlib.h>

#include "emulated_driver.h"

#define EXPORT __attribute__((visibility("default")))

/* Shapes of products that one process has. */
#define SHAPES_MAX 256

struct cublasContext {
	CUcontext context;
	CUstream stream;
	cublasPointerMode_t pointer_mode;
};

/* Column-major, as cuBLAS has it. */
struct product {
	CBLAS_TRANSPOSE transpose_a, transpose_b;
	int m, n, k, lda, ldb, ldc;
	const float *a, *b;
	float *c;
	float alpha, beta; /* of the host, as they were at the call */
	const float *alpha_at, *beta_at; /* or of the device, as they are at the product */
};

EXPORT cublasStatus_t cublasCreate(cublasHandle_t *handle)
{
	CUcontext context = NULL;

	if (cuCtxGetCurrent(&context) != CUDA_SUCCESS || !context)
		return CUBLAS_STATUS_NOT_INITIALIZED;
	*handle = calloc(1, sizeof(**handle));
	if (!*handle)
		return CUBLAS_STATUS_ALLOC_FAILED;
	(*handle)->context = context;
	return CUBLAS_STATUS_SUCCESS;
}

EXPORT cublasStatus_t cublasDestroy(cublasHandle_t handle)
{
	free(handle);
	return CUBLAS_STATUS_SUCCESS;
}

EXPORT cublasStatus_t cublasSetStream(cublasHandle_t handle, cudaStream_t stream)
{
	handle->stream = stream;
	return CUBLAS_STATUS_SUCCESS;
}

EXPORT cublasStatus_t cublasSetPointerMode(cublasHandle_t handle, cublasPointerMode_t mode)
{
	handle->pointer_mode = mode;
	return CUBLAS_STATUS_SUCCESS;
}

EXPORT const char *cublasGetStatusString(cublasStatus_t status)
{
	return status == CUBLAS_STATUS_EXECUTION_FAILED ? "the emulated device is lost"
	       : status == CUBLAS_STATUS_INTERNAL_ERROR
		       ? "code was to be loaded while streams wait for another"
		       : "the emulated cuBLAS refuses";
}

static void multiply(void *argument)
{
	struct product *p = argument;

	cblas_sgemm(CblasColMajor, p->transpose_a, p->transpose_b, p->m, p->n, p->k,
		p->alpha_at ? *p->alpha_at : p->alpha, p->a, p->lda, p->b, p->ldb,
		p->beta_at ? *p->beta_at : p->beta, p->c, p->ldc);
	free(p);
}

/* Whether a product of that shape has been seen before, and so its code is there. */
static bool is_loaded(const struct product *p)
{
	static struct product seen[SHAPES_MAX];
	static int count;

	for (int i = 0; i < count; i++)
		if (seen[i].transpose_a == p->transpose_a &&
			seen[i].transpose_b == p->transpose_b && seen[i].m == p->m &&
			seen[i].n == p->n && seen[i].k == p->k)
			return true;
	if (count < SHAPES_MAX)
		seen[count++] = *p;
	return false;
}

static bool is_device_memory(const void *at)
{
	CUdeviceptr base;
	size_t size;

	return cuMemGetAddressRange(&base, &size, (CUdeviceptr)at) == CUDA_SUCCESS;
}

/* A matrix of rows x columns whose columns are `leading` apart. */
static bool is_matrix(const float *at, int rows, int leading)
{
	return leading >= (rows > 1 ? rows : 1) && is_device_memory(at);
}

static bool makes_sense(cublasHandle_t handle, const struct product *p)
{
	CUcontext context = NULL;

	/* Nothing to add up: cuBLAS's manual defines no result. */
	if (p->m <= 0 || p->n <= 0 || p->k <= 0)
		return false;
	return cuCtxGetCurrent(&context) == CUDA_SUCCESS && context == handle->context &&
	       is_matrix(p->a, p->transpose_a == CblasNoTrans ? p->m : p->k, p->lda) &&
	       is_matrix(p->b, p->transpose_b == CblasNoTrans ? p->k : p->n, p->ldb) &&
	       is_matrix(p->c, p->m, p->ldc);
}

EXPORT cublasStatus_t cublasSgemm(cublasHandle_t handle, cublasOperation_t transpose_a,
	cublasOperation_t transpose_b, int m, int n, int k, const float *alpha, const float *a,
	int lda, const float *b, int ldb, const float *beta, float *c, int ldc)
{
	bool of_host = handle->pointer_mode == CUBLAS_POINTER_MODE_HOST;
	struct product *product = malloc(sizeof(*product));

	if (!product)
		return CUBLAS_STATUS_ALLOC_FAILED;
	*product = (struct product){
		.transpose_a = transpose_a == CUBLAS_OP_N ? CblasNoTrans : CblasTrans,
		.transpose_b = transpose_b == CUBLAS_OP_N ? CblasNoTrans : CblasTrans,
		.m = m,
		.n = n,
		.k = k,
		.lda = lda,
		.ldb = ldb,
		.ldc = ldc,
		.a = a,
		.b = b,
		.c = c,
		.alpha = of_host ? *alpha : 0,
		.beta = of_host ? *beta : 0,
		.alpha_at = of_host ? NULL : alpha,
		.beta_at = of_host ? NULL : beta,
	};
	if (!makes_sense(handle, product)) {
		free(product);
		return CUBLAS_STATUS_INVALID_VALUE;
	}
	if (!is_loaded(product) && emulated_load()) {
		free(product);
		return CUBLAS_STATUS_INTERNAL_ERROR;
	}
	if (cuLaunchHostFunc(handle->stream, multiply, product) != CUDA_SUCCESS) {
		free(product);
		return CUBLAS_STATUS_EXECUTION_FAILED;
	}
	return CUBLAS_STATUS_SUCCESS;
}
