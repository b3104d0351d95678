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
	if (gpu->base.error)
		return;
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

/* A factor whose product has rows x columns, rounded to halves in scratch; matrices that are the
   same in the whole batch are rounded once. */
static struct matrix round_factor(struct gpu *gpu, enum scratch scratch,
	const struct matrix *factor, int rows, int columns, int count)
{
	int batch = factor->step ? count : 1, pitch = factor->pitch;
	int stored_rows = factor->layout == AS_IS ? rows : columns;
	int stored_columns = factor->layout == AS_IS ? columns : rows;
	/* Tensor cores read rows that begin at multiples of 16 bytes. */
	int to_pitch = (stored_columns + 7) / 8 * 8;
	size_t from_step = factor->step, step = (size_t)stored_rows * to_pitch;
	bool bf16 = gpu->precision == RONDO_BF16;
	const float *from = factor->data;
	uint16_t *to = gpu_scratch(gpu, scratch, batch * step * sizeof(*to));
	void *parameters[] = { &batch, &stored_rows, &stored_columns, &pitch, &from_step, &from,
		&to_pitch, &bf16, &to };
	gpu_launch(gpu, KERNEL_pack, (size_t)batch * stored_rows, parameters);
	return (struct matrix){ .data = (float *)to,
		.pitch = to_pitch,
		.layout = factor->layout,
		.step = factor->step ? step : 0 };
}

int gpu_precision(struct device *device, rondo_type type)
{
	((struct gpu *)device)->precision = type;
	return 0;
}

/* Weights are rounded in every product: for 124 million parameters, twice a step, that reads and
   writes 1.5 GB, a small part of a step's time. */
void gpu_product(struct device *device, const struct product *p)
{
	struct gpu *gpu = (struct gpu *)device;
	if (device->error || !p->batch || !p->rows || !p->columns)
		return;
	if (!p->inner) {
		scale_only(gpu, p);
	} else if (gpu->precision == RONDO_F32) {
		multiply(gpu, p, &p->a, &p->b, CUDA_R_32F);
	} else {
		struct matrix a = round_factor(gpu, FACTOR_A, &p->a, p->rows, p->inner, p->batch);
		struct matrix b =
			round_factor(gpu, FACTOR_B, &p->b, p->inner, p->columns, p->batch);
		multiply(gpu, p, &a, &b, gpu->precision == RONDO_F16 ? CUDA_R_16F : CUDA_R_16BF);
	}
}
