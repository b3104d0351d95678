/*
 * Data-parallel training of a multilayer perceptron, with communication hidden behind backward: the
 * program to copy for a trainer of your own.
 *
 * Each rank has the whole model, and a part of every batch. Backward fills the array of gradients
 * from its end. When BUCKET values are ready, an all-reduce of them goes on a stream, whose thread
 * works while this one computes the layers below.
 *
 *     rondo-run --nproc-per-node 4 ./ddp_mlp
 *
 * The result is compared with that of one process which sees all samples.
 */
#include <float.h>
#include <math.h>
#include <rondo.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define LAYERS 4
#define WIDTH 32 /* of every layer */
#define INPUTS 4 /* the other ones are 0 */
#define CLASSES 4 /* outputs of the last layer that count */
#define LAYER (WIDTH * (WIDTH + 1)) /* for each output the weights of the inputs, then the bias */
#define PARAMETERS (LAYERS * LAYER)
#define BUCKET 2000 /* values, at least; in a large model some MiB */
#define BATCH 64 /* samples of all ranks together */
#define STEPS 600
#define LEARNING_RATE 0.5f
/* A sum in another order: each sample of each step is rounded another way. */
#define TOLERANCE (STEPS * BATCH * FLT_EPSILON)

struct model {
	float parameters[PARAMETERS];
	float gradient[PARAMETERS + 1]; /* behind it lies the loss: it needs no call of its own */
	/* For each sample of this rank: the inputs, and the outputs of each layer. */
	float values[LAYERS + 1][BATCH][WIDTH];
	float errors[LAYERS + 1][BATCH][WIDTH]; /* their gradients */
};

/* Ends this rank and prints the reason. The other ranks' next calls then return an error. */
static void check(int err)
{
	if (!err)
		return;
	fprintf(stderr, "%s: %s\n", rondo_error_name(err), rondo_last_error());
	exit(1);
}

/* A number in [-1, 1) that depends on the arguments alone. */
static float draw(int which, int index)
{
	unsigned int state = (unsigned int)(which * 65536 + index) * 2654435761u;

	state = (state ^ state >> 15) * 2246822519u;
	return (float)((state ^ state >> 13) >> 8) / (1 << 23) - 1;
}

/* The signs of x0 x1 and of x2 x3 decide the class of a sample: no line parts the classes. */
static int class_of(const float *x)
{
	return (x[0] * x[1] > 0) + 2 * (x[2] * x[3] > 0);
}

static void forward(struct model *model, int l, int samples)
{
	for (int s = 0; s < samples; s++) {
		const float *weights = &model->parameters[l * LAYER], *x = model->values[l][s];
		for (int o = 0; o < WIDTH; o++, weights += WIDTH + 1) {
			float sum = weights[WIDTH];
			for (int i = 0; i < WIDTH; i++)
				sum += weights[i] * x[i];
			model->values[l + 1][s][o] = l < LAYERS - 1 ? tanhf(sum) : sum;
		}
	}
}

/* Cross-entropy of the softmax, as a mean over the whole batch; returns this rank's part of it. */
static float mean_loss(struct model *model, int samples)
{
	float mean = 0;

	for (int s = 0; s < samples; s++) {
		const float *logits = model->values[LAYERS][s];
		float *error = model->errors[LAYERS][s], sum = 0, top = logits[0];
		int class = class_of(model->values[0][s]);
		for (int c = 1; c < CLASSES; c++)
			top = fmaxf(top, logits[c]);
		for (int c = 0; c < CLASSES; c++)
			sum += expf(logits[c] - top);
		for (int c = 0; c < CLASSES; c++)
			error[c] = (expf(logits[c] - top) / sum - (c == class)) / BATCH;
		mean += (logf(sum) + top - logits[class]) / BATCH;
	}
	return mean;
}

/* From the gradient of the layer's outputs to those of its parameters and of its inputs. */
static void layer_backward(struct model *model, int l, int samples)
{
	for (int s = 0; s < samples; s++) {
		const float *weights = &model->parameters[l * LAYER], *x = model->values[l][s];
		const float *error = model->errors[l + 1][s];
		float *gradient = &model->gradient[l * LAYER], *below = model->errors[l][s];
		memset(below, 0, sizeof(model->errors[l][s]));
		for (int o = 0; o < WIDTH; o++, weights += WIDTH + 1, gradient += WIDTH + 1) {
			for (int i = 0; i < WIDTH; i++) {
				gradient[i] += error[o] * x[i];
				below[i] += error[o] * weights[i] * (1 - x[i] * x[i]);
			}
			gradient[WIDTH] += error[o];
		}
	}
}

/* From the last layer to the first. All from `sent` on is on its way, and stays untouched. */
static void backward(struct model *model, int samples, rondo_comm *comm, rondo_stream *stream)
{
	int sent = PARAMETERS + 1;

	for (int l = LAYERS - 1; l >= 0; l--) {
		int ready = l * LAYER;
		float *bucket = &model->gradient[ready];
		layer_backward(model, l, samples);
		if (comm && (sent - ready >= BUCKET || l == 0)) {
			check(rondo_all_reduce(comm, bucket, bucket, (size_t)(sent - ready),
				RONDO_F32, RONDO_SUM, stream));
			sent = ready;
		}
	}
	if (comm)
		check(rondo_stream_synchronize(stream));
}

/* A rank takes every size-th sample of a batch. Without a comm it is alone. Returns the mean loss
   of the last batch, over all ranks. */
static float train(struct model *model, rondo_comm *comm)
{
	int rank = comm ? rondo_comm_rank(comm) : 0, size = comm ? rondo_comm_size(comm) : 1;
	rondo_stream *stream = NULL;

	for (int p = 0; p < PARAMETERS; p++)
		model->parameters[p] = draw(0, p) / 2;
	if (comm) {
		check(rondo_stream_create(&stream));
		/* All ranks draw the same values here; a trainer that reads a file needs this. */
		check(rondo_broadcast(comm, model->parameters, model->parameters, PARAMETERS,
			RONDO_F32, 0, NULL));
	}
	for (int step = 0; step < STEPS; step++) {
		int samples = 0;
		for (int s = rank; s < BATCH; s += size, samples++)
			for (int i = 0; i < INPUTS; i++)
				model->values[0][samples][i] = draw(1 + step, s * INPUTS + i);
		for (int l = 0; l < LAYERS; l++)
			forward(model, l, samples);
		memset(model->gradient, 0, sizeof(model->gradient));
		model->gradient[PARAMETERS] = mean_loss(model, samples);
		backward(model, samples, comm, stream);
		for (int p = 0; p < PARAMETERS; p++)
			model->parameters[p] -= LEARNING_RATE * model->gradient[p];
	}
	rondo_stream_destroy(stream);
	return model->gradient[PARAMETERS];
}

/* Whether all ranks have the same bits: then the least of them are the greatest. */
static int ranks_agree(const struct model *model, rondo_comm *comm)
{
	static uint32_t least[PARAMETERS], greatest[PARAMETERS];
	const float *mine = model->parameters;

	check(rondo_all_reduce(comm, mine, least, PARAMETERS, RONDO_U32, RONDO_MIN, NULL));
	check(rondo_all_reduce(comm, mine, greatest, PARAMETERS, RONDO_U32, RONDO_MAX, NULL));
	return !memcmp(least, greatest, sizeof(least));
}

int main(void)
{
	static struct model model, serial;
	rondo_comm *comm;
	int near = 1;

	check(rondo_comm_create(&comm, NULL));
	float loss = train(&model, comm), alone = train(&serial, NULL);
	int same = ranks_agree(&model, comm);
	for (int p = 0; p < PARAMETERS; p++)
		near &= fabsf(model.parameters[p] - serial.parameters[p]) <= TOLERANCE;
	printf("rank %d of %d: loss %.4f, serial %.4f, %s parameters, %s\n", rondo_comm_rank(comm),
		rondo_comm_size(comm), loss, alone, near ? "the same" : "OTHER",
		same ? "the same bits on all ranks" : "OTHER BITS ON SOME RANKS");
	check(rondo_comm_destroy(comm));
	return same && near ? 0 : 1;
}
