/* Products on the CPU: OpenBLAS, or kernels of our own for small batches. */
#include "train/device/cpu_product.h"

#include <cblas.h>

#include "train/device/cpu.h"
#include "train/device/cpu_elements.h"
#include "train/device/cpu_variants.h"

/*
 * Sizes at which the kernels are quicker, as measured with AVX-512: below, OpenBLAS has kernels for
 * small matrices; above, it makes better use of the caches. With AVX2 it reaches the processor's
 * peak at most sizes, so there are no kernels for that.
 */
#define LEAST_ROWS 8 /* and columns */
#define LEAST_WORK (1 << 19) /* rows * columns * inner */
#define GREATEST_WORK (1 << 28)

static const struct product_kernels none;

static const struct cpu_variant variants[] = {
#if defined(__x86_64__)
	{ "avx512", &cpu_product_avx512, RD_AVX512 },
#endif
	{ "plain", &none, RD_PLAIN },
	{ 0 },
};

static const void *chosen = &none;

__attribute__((constructor)) static void choose_best(void)
{
	cpu_product_choose(NULL);
}

const struct product_kernels *cpu_product_kernels(void)
{
	return chosen;
}

bool cpu_product_choose(const char *name)
{
	return cpu_variant_choose(variants, name, &chosen);
}

bool cpu_product_is_ours(const struct product *p)
{
	double work = (double)p->rows * p->columns * p->inner;
	bool factors_fit = p->beta == 1 || (p->beta == 0 && p->alpha == 1);
	return factors_fit && p->rows >= LEAST_ROWS && p->columns >= LEAST_ROWS &&
	       work >= LEAST_WORK && work <= GREATEST_WORK;
}

/* BLAS takes the pitch of the stored rows, whatever the layout. */
static CBLAS_TRANSPOSE order_of(const struct matrix *matrix)
{
	return matrix->layout == AS_IS ? CblasNoTrans : CblasTrans;
}

static void multiply_by_blas(const struct product *p)
{
	cblas_sgemm(CblasRowMajor, order_of(&p->a), order_of(&p->b), p->rows, p->columns, p->inner,
		p->alpha, p->a.data, p->a.pitch, p->b.data, p->b.pitch, p->beta, p->c.data,
		p->c.pitch);
}

/* Whether a multiplication with alpha before the sum may be fused with it, or split it. */
static bool needs_apart(const struct product *p, bool ours)
{
	return p->alpha != 1 && p->beta == 1 && !(ours && p->inner <= cpu_product_kernels()->depth);
}

static void multiply(const struct product *p, bool ours, float *scratch)
{
	if (ours)
		cpu_product_kernels()->multiply(p, scratch);
	else
		multiply_by_blas(p);
}

/* c += alpha a b, of a product apart[rows][columns]. */
static void multiply_apart(const struct product *p, bool ours, float *scratch, float *apart)
{
	const struct sgd step = { .rate = -p->alpha };
	struct product alone = *p;
	alone.c = (struct matrix){ .data = apart, .pitch = p->columns };
	alone.alpha = 1;
	alone.beta = 0;
	multiply(&alone, ours, scratch);
	for (int r = 0; r < p->rows; r++)
		cpu_elements()->sgd(&step, p->columns, 1, apart + (size_t)r * p->columns,
			p->c.data + (size_t)r * p->c.pitch, NULL);
}

void cpu_product(struct device *device, const struct product *product)
{
	struct product one = *product;
	/* OpenBLAS alone uses several threads. */
	bool ours = cpu_product_kernels()->multiply && openblas_get_num_threads() == 1 &&
		    cpu_product_is_ours(product);
	bool is_apart = needs_apart(product, ours);
	size_t apart = is_apart ? (size_t)product->rows * product->columns : 0;
	size_t room = apart + (ours ? cpu_product_kernels()->scratch(product) : 0);
	float *scratch = room ? cpu_scratch(device, room) : NULL;
	if (room && !scratch)
		return;
	for (int n = 0; n < product->batch; n++) {
		if (is_apart)
			multiply_apart(&one, ours, scratch + apart, scratch);
		else
			multiply(&one, ours, scratch);
		one.a.data += product->a.step;
		one.b.data += product->b.step;
		one.c.data += product->c.step;
	}
}
