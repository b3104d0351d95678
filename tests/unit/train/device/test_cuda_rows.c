/* Products, rows, elements, loss and optimizers on a GPU give the CPU's numbers. */
#include <criterion/criterion.h>
#include <math.h>

#include "train/base/fail.h"
#include "train/device/gpus.h"
#include "train/device/operations.h"

TestSuite(cuda_rows, .timeout = 120);

#define ROWS 37
#define COLUMNS 45
#define COUNT (ROWS * COLUMNS)

#define RUN(name) static void name(struct device *device, struct operands *o)
#define OPS device->ops

/* ---- Products ---- */

static void multiply(
	struct device *device, struct operands *o, enum layout a, enum layout b, float beta)
{
	device_multiply(
		device, ROWS, COLUMNS, 19, o->values[0], a, o->values[1], b, beta, o->values[2]);
}

RUN(product)
{
	multiply(device, o, AS_IS, AS_IS, 0);
}

RUN(product_a_transposed)
{
	multiply(device, o, TRANSPOSED, AS_IS, 0);
}

RUN(product_b_transposed)
{
	multiply(device, o, AS_IS, TRANSPOSED, 1);
}

RUN(product_both_transposed)
{
	multiply(device, o, TRANSPOSED, TRANSPOSED, 0);
}

RUN(product_of_nothing)
{
	device_multiply(device, ROWS, COLUMNS, 0, o->values[0], TRANSPOSED, o->values[1], AS_IS, 0,
		o->values[2]);
	device_multiply(device, ROWS, COLUMNS, 0, o->values[0], TRANSPOSED, o->values[1], AS_IS, 1,
		o->values[3]);
	device_multiply(
		device, 0, COLUMNS, 3, o->values[0], AS_IS, o->values[1], AS_IS, 0, o->values[4]);
}

/* Matrices apart from each other, whose rows are apart, too; a is the same in all. */
static void multiply_batch(struct device *device, struct operands *o, int batch, int inner)
{
	const struct product product = {
		.batch = batch,
		.rows = 7,
		.columns = 11,
		.inner = inner,
		.a = { .data = o->values[0], .pitch = 13 },
		.b = { .data = o->values[1], .pitch = 9, .step = 101, .layout = TRANSPOSED },
		.c = { .data = o->values[2], .pitch = 12, .step = 90 },
		.alpha = 0.5f,
		.beta = 0.25f,
	};
	OPS->product(device, &product);
}

RUN(products_of_a_batch)
{
	multiply_batch(device, o, 5, 9);
}

RUN(products_of_a_batch_of_nothing)
{
	multiply_batch(device, o, 3, 0);
	multiply_batch(device, o, 0, 9);
}

/* ---- Rows and elements ---- */

RUN(spread)
{
	OPS->spread(device, ROWS, COLUMNS, o->values[0], o->values[2]);
}

RUN(column_sums)
{
	OPS->column_sums(device, ROWS, COLUMNS, o->values[0], o->values[2]);
	OPS->column_sums(device, 0, COLUMNS, o->values[0], o->values[3]);
}

/* More rows than a block adds up. */
RUN(column_sums_of_many_rows)
{
	OPS->column_sums(device, 2700, 3, o->values[0], o->values[2]);
	OPS->column_sums(device, 256, 5, o->values[0], o->values[3]);
	OPS->column_sums(device, 257, 5, o->values[0], o->values[4]);
}

RUN(add)
{
	OPS->add(device, COUNT, o->values[0], o->values[1], o->values[2]);
	OPS->add(device, COUNT, o->values[3], o->values[4], o->values[3]);
}

RUN(scale)
{
	OPS->scale(device, COUNT, 0.3f, o->values[0]);
}

RUN(relu)
{
	OPS->relu(device, COUNT, o->values[0], o->values[2]);
	OPS->relu_grad(device, COUNT, o->values[0], o->values[1], o->values[3]);
}

RUN(nothing)
{
	OPS->spread(device, 0, COLUMNS, o->values[0], o->values[2]);
	OPS->add(device, 0, o->values[0], o->values[1], o->values[2]);
	OPS->scale(device, 0, 2, o->values[2]);
	OPS->relu(device, 0, o->values[0], o->values[2]);
	OPS->relu_grad(device, 0, o->values[0], o->values[1], o->values[2]);
	OPS->loss(device, 0, COLUMNS, o->values[0], o->labels, o->sums);
	OPS->loss_grad(device, 0, COLUMNS, o->values[0], o->labels, 1, o->values[2]);
	OPS->square_sum(device, 0, o->values[0], &o->sums[3]);
	OPS->sgd(device, &(struct sgd){ .rate = 1 }, 0, o->values[0], NULL, o->values[2], NULL);
}

/* ---- Loss ---- */

RUN(loss)
{
	OPS->loss(device, ROWS, COLUMNS, o->values[0], o->labels, o->sums);
	OPS->loss_grad(device, ROWS, COLUMNS, o->values[0], o->labels, 0.5f, o->values[2]);
	OPS->loss_grad(device, ROWS, COLUMNS, o->values[3], o->labels, 0.5f, o->values[3]);
}

/* Fewer columns than a block has threads, one column, and more rows than blocks. */
RUN(loss_of_few_columns)
{
	OPS->clear(device, o->labels, 900 * sizeof(*o->labels));
	OPS->loss(device, 900, 2, o->values[0], o->labels, o->sums);
	OPS->loss(device, 5, 1, o->values[0], o->labels, &o->sums[2]);
	OPS->loss_grad(device, 900, 2, o->values[0], o->labels, 1, o->values[2]);
}

/* Large logits, and rows of nothing but zeros. */
RUN(loss_of_extremes)
{
	OPS->scale(device, COUNT, 1e30f, o->values[0]);
	OPS->clear(device, o->values[1], ROOM * sizeof(float));
	OPS->loss(device, ROWS, COLUMNS, o->values[0], o->labels, o->sums);
	OPS->loss(device, ROWS, COLUMNS, o->values[1], o->labels, &o->sums[2]);
	OPS->loss_grad(device, ROWS, COLUMNS, o->values[0], o->labels, 1, o->values[2]);
}

/* Half of a row are the largest: 0. */
RUN(loss_of_equals)
{
	OPS->relu(device, ROOM, o->values[0], o->values[0]);
	OPS->scale(device, ROOM, -1, o->values[0]);
	OPS->loss(device, ROWS, COLUMNS, o->values[0], o->labels, o->sums);
	OPS->loss(device, ROOM / COLUMNS, COLUMNS, o->values[0], o->labels, &o->sums[2]);
}

/* ---- Optimizers ---- */

RUN(square_sum)
{
	OPS->square_sum(device, COUNT, o->values[0], &o->sums[0]);
	OPS->square_sum(device, ROOM, o->values[0], &o->sums[0]);
	OPS->square_sum(device, 1, o->values[0], &o->sums[1]);
}

static void clip(struct device *device, struct operands *o, float max_norm, float unscale, int at)
{
	OPS->clip_factor(device, &o->sums[at], max_norm, unscale, &o->values[2][at]);
}

RUN(clip_factor)
{
	for (int i = 0; i < 5; i++) {
		OPS->clear(device, &o->sums[i], sizeof(double));
		OPS->square_sum(device, COUNT, o->values[i == 4 ? 1 : 0], &o->sums[i]);
	}
	clip(device, o, 0, 0.5f, 0);
	clip(device, o, 1, 0.5f, 1);
	clip(device, o, 1e6f, 0.25f, 2);
	OPS->scale(device, 1, INFINITY, o->values[3]);
	OPS->square_sum(device, 2, o->values[3], &o->sums[3]);
	clip(device, o, 1, 1, 3);
	OPS->scale(device, 1, NAN, o->values[3]);
	OPS->square_sum(device, 2, o->values[3], &o->sums[4]);
	clip(device, o, 0, 1, 4);
}

RUN(sgd)
{
	struct sgd sgd = { .rate = 0.25f };
	OPS->sgd(device, &sgd, COUNT, o->values[0], NULL, o->values[1], NULL);
	sgd = (struct sgd){ .rate = 0.1f, .momentum = 0.9f, .weight_decay = 0.01f, .first = true };
	OPS->sgd(device, &sgd, COUNT, o->values[0], NULL, o->values[2], o->values[3]);
	sgd.first = false;
	OPS->sgd(device, &sgd, COUNT, o->values[0], &o->values[7][0], o->values[2], o->values[3]);
	sgd.nesterov = true;
	OPS->sgd(device, &sgd, COUNT, o->values[0], &o->values[7][0], o->values[4], o->values[5]);
}

RUN(adam)
{
	struct adam adam = { .rate = 0.1f,
		.beta1 = 0.9f,
		.beta2 = 0.999f,
		.epsilon = 1e-8f,
		.weight_decay = 0.01f,
		.step = 1 };
	OPS->clear(device, o->values[2], 2 * sizeof(o->values[2]));
	for (; adam.step <= 3; adam.step++)
		OPS->adam(device, &adam, COUNT, o->values[0], NULL, o->values[1], o->values[2],
			o->values[3]);
	adam.decoupled = true;
	OPS->adam(device, &adam, COUNT, o->values[0], &o->values[7][0], o->values[1], o->values[2],
		o->values[3]);
}

/* A factor that is not a number: nothing moves. */
RUN(no_step)
{
	struct sgd sgd = { .rate = 0.25f, .momentum = 0.9f };
	struct adam adam = { .rate = 0.1f, .beta1 = 0.9f, .beta2 = 0.999f, .step = 1 };
	OPS->scale(device, 1, NAN, o->values[7]);
	OPS->sgd(device, &sgd, COUNT, o->values[0], o->values[7], o->values[1], o->values[2]);
	OPS->adam(device, &adam, COUNT, o->values[0], o->values[7], o->values[3], o->values[4],
		o->values[5]);
}

static void convert(struct device *device, struct operands *o, rondo_type type)
{
	OPS->scale(device, ROOM / 4, 1e5f, o->values[0]); /* some beyond f16 */
	OPS->scale(device, ROOM / 2, 1e-6f, o->values[0]); /* some below its normal numbers */
	OPS->scale(device, 3, NAN, o->values[0]);
	OPS->scale(device, 5, 1e38f, o->values[0]);
	OPS->scale(device, 5, 1e38f, o->values[0]);
	OPS->convert(device, ROOM, RONDO_F32, o->values[0], type, o->halves);
	OPS->convert(device, ROOM, type, o->halves, RONDO_F32, o->values[1]);
	OPS->clear(device, o->halves, 3 * sizeof(*o->halves)); /* a GPU's NaN has other bits */
	OPS->convert(device, 0, type, o->halves, RONDO_F32, o->values[2]);
}

RUN(convert_f16)
{
	convert(device, o, RONDO_F16);
}

RUN(convert_bf16)
{
	convert(device, o, RONDO_BF16);
}

/*
 * Products that are added up, factors, and c of before. Sums of many rows are exact. The
 * exponentials of a row have a rounding for their argument's product, for its difference, and two
 * of their own; 16 parts of them are added up. Optimizers step by fractions of numbers up to 6.
 */
#define LOSS_ROUNDINGS(columns) (8 + (columns) / 16 + 4)

static int compare_rows(void)
{
	static const struct operation operations[] = {
		{ "product", product, .roundings = 19 },
		{ "product, a transposed", product_a_transposed, .roundings = 19 },
		{ "product, b transposed", product_b_transposed, .roundings = 19 + 1 },
		{ "product, both transposed", product_both_transposed, .roundings = 19 },
		{ "product of nothing", product_of_nothing, .roundings = 0 },
		{ "batch", products_of_a_batch, .roundings = 9 + 3 },
		{ "batch of nothing", products_of_a_batch_of_nothing, .roundings = 0 },
		{ "spread", spread, .roundings = 0 },
		{ "column_sums", column_sums, .roundings = ROWS },
		{ "column_sums of many rows", column_sums_of_many_rows, .coarse = true },
		{ "add", add, .roundings = 0 },
		{ "scale", scale, .roundings = 0 },
		{ "relu", relu, .roundings = 0 },
		{ "nothing", nothing, .roundings = 0 },
		{ "loss", loss, .roundings = LOSS_ROUNDINGS(COLUMNS),
			.sizes = { [2] = 0.5, [3] = 0.5 }, .sum_size = ROWS },
		{ "loss of few columns", loss_of_few_columns, .roundings = LOSS_ROUNDINGS(2),
			.sizes = { [2] = 1 }, .sum_size = 900 },
		{ "loss of extremes", loss_of_extremes, .roundings = LOSS_ROUNDINGS(COLUMNS),
			.sizes = { [2] = 1 }, .sum_size = ROWS },
		{ "loss of equals", loss_of_equals, .roundings = LOSS_ROUNDINGS(COLUMNS),
			.sum_size = ROOM / COLUMNS },
		{ "square_sum", square_sum, .roundings = ROOM * OF_DOUBLES, .sum_size = 4 * ROOM },
		{ "clip_factor", clip_factor, .roundings = 1, .sizes = { [2] = 1 },
			.sum_size = 4 * COUNT },
		{ "sgd", sgd, .roundings = 12,
			.sizes = { [1] = 3, [2] = 3, [3] = 6, [4] = 3, [5] = 6 } },
		{ "adam", adam, .roundings = 12, .sizes = { [1] = 3, [2] = 4, [3] = 4 } },
		{ "no step", no_step, .roundings = 0 },
		{ "f16", convert_f16, .roundings = 0 },
		{ "bf16", convert_bf16, .roundings = 0 },
	};
	return compare_operations(operations, sizeof(operations) / sizeof(operations[0]));
}

Test(cuda_rows, every_operation_gives_the_cpus_numbers)
{
	need_gpus(NULL);
	expect_success(compare_rows);
}
