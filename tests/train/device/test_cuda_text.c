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

static int compare_text(void)
{
	static const struct operation operations[] = {
		{ "gelu", gelu, 5e-6f },
		{ "embed", embed_sequences, 1e-6f },
		{ "embed, many rows", embed_many_rows, 1e-5f },
		{ "embed, a part of a sequence", embed_a_part_of_a_sequence, 1e-6f },
		{ "embed, nothing", embed_nothing, 0 },
		{ "layer_norm", layer_norm, 1e-5f },
		{ "layer_norm of many rows", layer_norm_of_many_rows, 1e-5f },
		{ "layer_norm of one column", layer_norm_of_one_column, 1e-4f },
		{ "layer_norm of nothing", layer_norm_of_nothing, 0 },
		{ "causal_softmax", causal_softmax, 1e-6f },
		{ "causal_softmax of large scores", causal_softmax_of_large_scores, 1e-6f },
		{ "causal_softmax of one", causal_softmax_of_one, 1e-6f },
		{ "loss of a vocabulary", loss_of_a_vocabulary, 1e-6f },
	};
	return compare_operations(operations, sizeof(operations) / sizeof(operations[0]));
}

Test(cuda_text, every_operation_gives_the_cpus_numbers)
{
	need_gpus(NULL);
	expect_success(compare_text);
}
