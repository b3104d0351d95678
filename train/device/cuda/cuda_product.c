/* Matrix products by cuBLAS. */
#include "train/device/cuda/gpu.h"

static cublasOperation_t order_of(const struct matrix *matrix)
{
	return matrix->layout == AS_IS ? CUBLAS_OP_N : CUBLAS_OP_T;
}

/* c = beta c: cuBLAS does not document a sum of nothing. */
static void scale_only(struct gpu *gpu, const struct product *p)
{
	int batch = p->batch, rows = p->rows, columns = p->columns, pitch = p->c.pitch;
	size_t step = p->c.step;
	float beta = p->beta, *c = p->c.data;
	void *parameters[] = { &batch, &rows, &columns, &pitch, &step, &beta, &c };
	gpu_launch(gpu, KERNEL_scale_matrices, (size_t)batch * rows, parameters);
}

/*
 * cuBLAS is column-major, so our a[rows][inner] is its transpose there. So cuBLAS computes the
 * transpose of c: the transpose of b times that of a.
 */
static void multiply(struct gpu *gpu, const struct product *p, const struct matrix *a,
	const struct matrix *b, cudaDataType type)
{
	cublasStatus_t status;
	if (p->batch == 1)
		status = cuda.cublasGemmEx(gpu->blas, order_of(b), order_of(a), p->columns, p->rows,
			p->inner, &p->alpha, b->data, type, b->pitch, a->data, type, a->pitch,
			&p->beta, p->c.data, CUDA_R_32F, p->c.pitch, CUBLAS_COMPUTE_32F,
			CUBLAS_GEMM_DEFAULT);
	else
		status = cuda.cublasGemmStridedBatchedEx(gpu->blas, order_of(b), order_of(a),
			p->columns, p->rows, p->inner, &p->alpha, b->data, type, b->pitch,
			(long long)b->step, a->data, type, a->pitch, (long long)a->step, &p->beta,
			p->c.data, CUDA_R_32F, p->c.pitch, (long long)p->c.step, p->batch,
			CUBLAS_COMPUTE_32F, CUBLAS_GEMM_DEFAULT);
	gpu_check_blas(gpu, status, "multiply");
}

void gpu_product(struct device *device, const struct product *p)
{
	struct gpu *gpu = (struct gpu *)device;
	if (device->error || !p->batch || !p->rows || !p->columns)
		return;
	if (!p->inner)
		scale_only(gpu, p);
	else
		multiply(gpu, p, &p->a, &p->b, CUDA_R_32F);
}
