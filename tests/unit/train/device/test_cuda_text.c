/* GELU, embeddings, layer norm, softmax and the loss of a vocabulary on a GPU give the CPU's
   numbers. */
#include <criterion/criterion.h>

#include "train/base/fail.h"
#include "train/device/gpus.h"
#include "train/device/operations.h"

TestSuite(cuda_text, .timeout = 120);

#define RUN(name) static void name(struct device *device, struct operands *o)
#define OPS device->ops

RUN(gelu)
{
	OPS->scale(device, ROOM / 2, 8, o->values[0]);
	OPS->gelu(device, ROOM - 1, o->values[0], o->values[1]);
	OPS->gelu_grad(device, ROOM - 1, o->values[0], o->values[2], o->values[3]);
	OPS->gelu(device, 0, o->values[0], o->values[4]);
}

/* ---- Embeddings ---- */

static void embed(struct device *device, struct operands *o, int rows, int positions, int width)
{
	const struct embedding shape = {
		.rows = rows, .positions = positions, .width = width, .vocabulary = LABELS
	};
	OPS->embed(device, &shape, o->labels, o->values[0], o->values[1], o->values[2]);
	OPS->embed_grad(device, &shape, o->labels, o->values[3], o->values[4], o->values[5]);
}

RUN(embed_sequences)
{
	embed(device, o, 4 * 24, 24, 37);
}

/* Many rows of each token, of which the sums are shared. */
RUN(embed_many_rows)
{
	embed(device, o, 1170, 130, 7);
}

RUN(embed_a_part_of_a_sequence)
{
	embed(device, o, 5, 24, 64);
	embed(device, o, 29, 24, 1);
}

RUN(embed_nothing)
{
	embed(device, o, 0, 24, 16);
}

/* ---- Layer norm ---- */

static void normalise(struct device *device, struct operands *o, int rows, int columns)
{
	const struct layer_norm norm = { .rows = rows, .columns = columns, .epsilon = 1e-5f };
	float *in = o->values[0], *weight = o->values[1], *bias = weight + columns;
	float *saved = o->values[2], *out = o->values[3], *out_grad = o->values[4];
	float *in_grad = o->values[5], *gradients = o->values[6];
	OPS->layer_norm(device, &norm, in, weight, bias, saved, out);
	OPS->layer_norm_grad(device, &norm, in, saved, weight, out_grad, in_grad, gradients,
		gradients + columns);
}

RUN(layer_norm)
{
	normalise(device, o, 31, 67);
}

/* More rows than a block adds up. */
RUN(layer_norm_of_many_rows)
{
	normalise(device, o, 600, 13);
}

/* The variance is 0, and 1 / sqrt(epsilon) = 316 enlarges rounding. */
RUN(layer_norm_of_one_column)
{
	normalise(device, o, 9, 1);
}

RUN(layer_norm_of_nothing)
{
	normalise(device, o, 0, 40);
}

/* ---- Softmax ---- */

static void attend(struct device *device, struct operands *o, int matrices, int size)
{
	OPS->causal_softmax(device, matrices, size, 0.7f, o->values[0]);
	OPS->causal_softmax_grad(device, matrices, size, 0.7f, o->values[0], o->values[1]);
}

RUN(causal_softmax)
{
	attend(device, o, 5, 29);
}

RUN(causal_softmax_of_large_scores)
{
	OPS->scale(device, ROOM, 1e4f, o->values[0]);
	attend(device, o, 3, 17);
}

RUN(causal_softmax_of_one)
{
	attend(device, o, 7, 1);
	attend(device, o, 0, 8);
}

/* ---- Loss ---- */

/* Labels are below LABELS. */
RUN(loss_of_a_vocabulary)
{
	OPS->loss(device, 3, 2711, o->values[0], o->labels, o->sums);
	OPS->loss_grad(device, 3, 2711, o->values[0], o->labels, 0.25f, o->values[1]);
}

/*
 * GELU takes an input of up to 16 times a number within 1, and that has eight roundings.
 *
 * Layer norm adds up a row twice, then has the sizes of batch norm (test_cuda_images.c); a
 * gradient of the parameters adds up all rows, in which a normalised input is 1 on average.
 */
#define LAYER_NORM(rows, columns) \
	.roundings = (rows) + (columns) + 8, \
	.sizes = { [2] = 2, [3] = 10, [5] = 24, [6] = 2 * (rows) }

/* A share of a softmax, of a row of `size`: see LOSS_ROUNDINGS in test_cuda_rows.c. Its gradient
   adds up a row of shares, and is up to 4 times as large. */
#define SOFTMAX(size) .roundings = 2 * (size) + 16, .sizes = { [0] = 1, [1] = 4 }

static int compare_text(void)
{
	static const struct operation operations[] = {
		{ "gelu", gelu, .roundings = 8, .sizes = { [1] = 16, [3] = 16 } },
		{ "embed", embed_sequences, .coarse = true },
		{ "embed, many rows", embed_many_rows, .coarse = true },
		{ "embed, a part of a sequence", embed_a_part_of_a_sequence, .roundings = 29 },
		{ "embed, nothing", embed_nothing, .roundings = 0 },
		{ "layer_norm", layer_norm, LAYER_NORM(31, 67) },
		{ "layer_norm of many rows", layer_norm_of_many_rows, LAYER_NORM(600, 13) },
		/* 1 / sqrt(1e-5) enlarges all. */
		{ "layer_norm of one column", layer_norm_of_one_column, .roundings = 9 + 1 + 8,
			.sizes = { [2] = 317, [3] = 10, [5] = 4 * 317, [6] = 2 * 9 } },
		{ "layer_norm of nothing", layer_norm_of_nothing, .roundings = 0 },
		{ "causal_softmax", causal_softmax, SOFTMAX(29) },
		/* A share changes by up to a quarter of its score's rounding; a score is up to
		   14000. */
		{ "causal_softmax of large scores", causal_softmax_of_large_scores, .roundings = 4,
			.sizes = { [0] = 14000 / 4, [1] = 14000 } },
		{ "causal_softmax of one", causal_softmax_of_one, SOFTMAX(1) },
		{ "loss of a vocabulary", loss_of_a_vocabulary, .roundings = 8 + 2711 / 16 + 4,
			.sizes = { [1] = 0.25 }, .sum_size = 3 },
	};
	return compare_operations(operations, sizeof(operations) / sizeof(operations[0]));
}

Test(cuda_text, every_operation_gives_the_cpus_numbers)
{
	need_gpus(NULL);
	expect_success(compare_text);
}
