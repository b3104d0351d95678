/*
 * An emulated libcublas, on top of the emulated driver: products by OpenBLAS, in the order of the
 * handle's stream. It refuses what cuBLAS refuses of train/device/cuda. Each shape
 * of a product has code of its own, which is loaded when it comes first.
 */
#include <cblas.h>
#include <cublas_v2.h>
#include <cuda.h>
#include <stdbool.h>
#include <stdlib.h>

#include "emulated_driver.h"
#include "train/device/half.h"

#define EXPORT __attribute__((visibility("default")))

/* Shapes of products that one process has. */
#define SHAPES_MAX 256

struct cublasContext {
	CUcontext context;
	CUstream stream;
	cublasPointerMode_t pointer_mode;
};

/* Column-major, as cuBLAS has it. */
struct matrix {
	char *data; /* of the first */
	CBLAS_TRANSPOSE transpose;
	cudaDataType_t type;
	int rows, columns; /* as stored */
	int leading;
	long long stride; /* elements from one matrix to the next */
};

struct product {
	int batch, m, n, k;
	struct matrix a, b, c;
	float alpha, beta; /* of the host, as they were at the call */
	const float *alpha_at, *beta_at; /* or of the device, as they are at the product */
};

static const struct emulated_grid of_products = {
	.blocks = 2 * EMULATED_PROCESSORS, .threads = 256, .registers = EMULATED_PRODUCT_REGISTERS
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

static size_t size_of(cudaDataType_t type)
{
	return type == CUDA_R_32F ? sizeof(float) : sizeof(uint16_t);
}

/* Matrix number n of the batch in f32; to be freed unless it is as stored. */
static float *open_matrix(const struct matrix *matrix, int n)
{
	const char *at = matrix->data + n * matrix->stride * (long long)size_of(matrix->type);
	size_t count = (size_t)matrix->leading * (matrix->columns - 1) + matrix->rows;
	const uint16_t *halves = (const uint16_t *)at;
	float *values;

	if (matrix->type == CUDA_R_32F)
		return (float *)at;
	values = malloc(count * sizeof(*values));
	for (size_t i = 0; i < count; i++)
		values[i] = matrix->type == CUDA_R_16BF ? f32_of_bf16(halves[i])
							: f32_of_f16(halves[i]);
	return values;
}

static void close_matrix(const struct matrix *matrix, float *values)
{
	if (matrix->type != CUDA_R_32F)
		free(values);
}

static void multiply(void *argument)
{
	struct product *p = argument;

	for (int i = 0; i < p->batch; i++) {
		float *a = open_matrix(&p->a, i), *b = open_matrix(&p->b, i);

		cblas_sgemm(CblasColMajor, p->a.transpose, p->b.transpose, p->m, p->n, p->k,
			p->alpha_at ? *p->alpha_at : p->alpha, a, p->a.leading, b, p->b.leading,
			p->beta_at ? *p->beta_at : p->beta, open_matrix(&p->c, i), p->c.leading);
		close_matrix(&p->a, a);
		close_matrix(&p->b, b);
	}
	free(p);
}

/* Whether a product of that shape has been seen before, and so its code is there. */
static bool is_loaded(const struct product *p)
{
	static struct product seen[SHAPES_MAX];
	static int count;

	for (int i = 0; i < count; i++)
		if (seen[i].a.transpose == p->a.transpose &&
			seen[i].b.transpose == p->b.transpose && seen[i].a.type == p->a.type &&
			seen[i].m == p->m && seen[i].n == p->n && seen[i].k == p->k)
			return true;
	if (count < SHAPES_MAX)
		seen[count++] = *p;
	return false;
}

/* Whether all matrices of a batch lie in one allocation of a device. */
static bool is_matrix(const struct matrix *matrix, int batch)
{
	CUdeviceptr base, at = (CUdeviceptr)matrix->data;
	size_t size, count = (size_t)matrix->leading * (matrix->columns - 1) + matrix->rows;

	return matrix->leading >= matrix->rows && matrix->stride >= 0 &&
	       cuMemGetAddressRange(&base, &size, at) == CUDA_SUCCESS &&
	       at + ((batch - 1) * (size_t)matrix->stride + count) * size_of(matrix->type) <=
		       base + size;
}

static bool makes_sense(cublasHandle_t handle, const struct product *p)
{
	CUcontext context = NULL;

	/* Nothing to add up: cuBLAS's manual defines no result. */
	if (p->m <= 0 || p->n <= 0 || p->k <= 0 || p->batch <= 0)
		return false;
	/* Results must not overlap; factors may. */
	if (p->batch > 1 && p->c.stride < p->m)
		return false;
	if (p->a.type != p->b.type || p->c.type != CUDA_R_32F)
		return false;
	if (p->a.type != CUDA_R_32F && p->a.type != CUDA_R_16F && p->a.type != CUDA_R_16BF)
		return false;
	return cuCtxGetCurrent(&context) == CUDA_SUCCESS && context == handle->context &&
	       is_matrix(&p->a, p->batch) && is_matrix(&p->b, p->batch) &&
	       is_matrix(&p->c, p->batch);
}

/* A factor of rows x columns, perhaps stored as its transpose. */
static struct matrix factor_of(const void *data, cublasOperation_t operation, cudaDataType_t type,
	int rows, int columns, int leading, long long stride)
{
	bool plain = operation == CUBLAS_OP_N;

	return (struct matrix){
		.data = (char *)data,
		.transpose = plain ? CblasNoTrans : CblasTrans,
		.type = type,
		.rows = plain ? rows : columns,
		.columns = plain ? columns : rows,
		.leading = leading,
		.stride = stride,
	};
}

EXPORT cublasStatus_t cublasGemmStridedBatchedEx(cublasHandle_t handle,
	cublasOperation_t transpose_a, cublasOperation_t transpose_b, int m, int n, int k,
	const void *alpha, const void *a, cudaDataType_t a_type, int lda, long long a_stride,
	const void *b, cudaDataType_t b_type, int ldb, long long b_stride, const void *beta,
	void *c, cudaDataType_t c_type, int ldc, long long c_stride, int batch,
	cublasComputeType_t compute, cublasGemmAlgo_t algorithm)
{
	bool of_host = handle->pointer_mode == CUBLAS_POINTER_MODE_HOST;
	struct product *product = malloc(sizeof(*product));

	if (!product)
		return CUBLAS_STATUS_ALLOC_FAILED;
	*product = (struct product){
		.batch = batch,
		.m = m,
		.n = n,
		.k = k,
		.a = factor_of(a, transpose_a, a_type, m, k, lda, a_stride),
		.b = factor_of(b, transpose_b, b_type, k, n, ldb, b_stride),
		.c = factor_of(c, CUBLAS_OP_N, c_type, m, n, ldc, c_stride),
		.alpha = of_host ? *(const float *)alpha : 0,
		.beta = of_host ? *(const float *)beta : 0,
		.alpha_at = of_host ? NULL : alpha,
		.beta_at = of_host ? NULL : beta,
	};
	if (compute != CUBLAS_COMPUTE_32F || algorithm != CUBLAS_GEMM_DEFAULT ||
		!makes_sense(handle, product)) {
		free(product);
		return CUBLAS_STATUS_INVALID_VALUE;
	}
	if (!is_loaded(product) && emulated_load()) {
		free(product);
		return CUBLAS_STATUS_INTERNAL_ERROR;
	}
	if (emulated_launch(handle->stream, &of_products, multiply, product)) {
		free(product);
		return CUBLAS_STATUS_EXECUTION_FAILED;
	}
	return CUBLAS_STATUS_SUCCESS;
}

EXPORT cublasStatus_t cublasGemmEx(cublasHandle_t handle, cublasOperation_t transpose_a,
	cublasOperation_t transpose_b, int m, int n, int k, const void *alpha, const void *a,
	cudaDataType_t a_type, int lda, const void *b, cudaDataType_t b_type, int ldb,
	const void *beta, void *c, cudaDataType_t c_type, int ldc, cublasComputeType_t compute,
	cublasGemmAlgo_t algorithm)
{
	return cublasGemmStridedBatchedEx(handle, transpose_a, transpose_b, m, n, k, alpha, a,
		a_type, lda, 0, b, b_type, ldb, 0, beta, c, c_type, ldc, 0, 1, compute, algorithm);
}
