/*
 * Pipeline parallelism: each rank is a stage, some successive layers of the model. A batch is cut
 * into micro-batches: while a stage computes one, the stage before it computes the next. First all
 * of them go forward, then all go back (GPipe, https://arxiv.org/abs/1811.06965).
 *
 *     rondo-run --nproc-per-node 4 ./pipeline_parallel
 *
 * The result is compared with that of all layers in one process.
 */
#include <float.h>
#include <math.h>
#include <rondo.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define LAYERS 4
#define WIDTH 6
#define MICRO_BATCHES 8
#define MICRO_BATCH 4
#define VALUES (MICRO_BATCH * WIDTH) /* activations of a micro-batch */
#define STEPS 50
#define LEARNING_RATE 0.5f
/* A sum in another order: each sample of each step is rounded another way. */
#define TOLERANCE (STEPS * MICRO_BATCHES * MICRO_BATCH * FLT_EPSILON)

/* y = x + f(W x), where f(s) is s, or s / 10 below 0 (leaky ReLU). */
struct layer {
	float w[WIDTH][WIDTH], dw[WIDTH][WIDTH];
	float x[MICRO_BATCHES][VALUES], y[MICRO_BATCHES][VALUES]; /* inputs and outputs */
	float dx[MICRO_BATCHES][VALUES], dy[MICRO_BATCHES][VALUES]; /* their gradients */
};

/* Ends this rank and prints the reason. The other ranks' next calls then return an error. */
static void check(int err)
{
	if (!err)
		return;
	fprintf(stderr, "%s: %s\n", rondo_error_name(err), rondo_last_error());
	exit(1);
}

/* A number in [-0.5, 0.5) that depends on the arguments alone: all ranks draw the same. */
static float draw(int which, int index)
{
	unsigned int state = (unsigned int)(which * 4096 + index) * 2654435761u;

	state ^= state >> 15;
	return (float)(state * 2246822519u >> 8) / (1 << 24) - 0.5f;
}

static void forward(struct layer *layer, int m)
{
	for (int s = 0; s < MICRO_BATCH; s++)
		for (int o = 0; o < WIDTH; o++) {
			const float *x = &layer->x[m][s * WIDTH];
			float sum = 0;

			for (int i = 0; i < WIDTH; i++)
				sum += layer->w[o][i] * x[i];
			layer->y[m][s * WIDTH + o] = x[o] + (sum > 0 ? sum : sum / 10);
		}
}

/* From dy to dx, and adds to dw. */
static void backward(struct layer *layer, int m)
{
	memcpy(layer->dx[m], layer->dy[m], sizeof(layer->dx[m]));
	for (int s = 0; s < MICRO_BATCH; s++)
		for (int o = 0; o < WIDTH; o++) {
			const float *x = &layer->x[m][s * WIDTH];
			int above = layer->y[m][s * WIDTH + o] > x[o];
			float dsum = layer->dy[m][s * WIDTH + o] * (above ? 1 : 0.1f);

			for (int i = 0; i < WIDTH; i++) {
				layer->dw[o][i] += dsum * x[i];
				layer->dx[m][s * WIDTH + i] += dsum * layer->w[o][i];
			}
		}
}

/* Half the mean squared distance of the model's outputs from the targets; and its gradient. */
static float compare(const float *y, float *dy, int m)
{
	float loss = 0;

	for (int i = 0; i < VALUES; i++) {
		float error = y[i] - draw(101, m * VALUES + i);

		dy[i] = error / (MICRO_BATCHES * VALUES);
		loss += error * dy[i] / 2;
	}
	return loss;
}

/* A step of a stage of `count` layers. Returns the loss on the last stage, and 0 on the others. */
static float step(rondo_comm *comm, struct layer *layers, int count)
{
	int stage = comm ? rondo_comm_rank(comm) : 0, stages = comm ? rondo_comm_size(comm) : 1;
	struct layer *first = &layers[0], *last = &layers[count - 1];
	float loss = 0;

	for (int m = 0; m < MICRO_BATCHES; m++) {
		if (stage > 0)
			check(rondo_recv(comm, first->x[m], VALUES, RONDO_F32, stage - 1, NULL));
		for (struct layer *layer = first; layer <= last; layer++) {
			if (layer > first)
				memcpy(layer->x[m], layer[-1].y[m], sizeof(layer->x[m]));
			forward(layer, m);
		}
		if (stage < stages - 1)
			check(rondo_send(comm, last->y[m], VALUES, RONDO_F32, stage + 1, NULL));
		else
			loss += compare(last->y[m], last->dy[m], m);
	}
	for (int m = 0; m < MICRO_BATCHES; m++) {
		if (stage < stages - 1)
			check(rondo_recv(comm, last->dy[m], VALUES, RONDO_F32, stage + 1, NULL));
		for (int k = count - 1; k >= 0; k--) {
			if (k < count - 1)
				memcpy(layers[k].dy[m], layers[k + 1].dx[m],
					sizeof(layers[k].dy[m]));
			backward(&layers[k], m);
		}
		if (stage > 0)
			check(rondo_send(comm, first->dx[m], VALUES, RONDO_F32, stage - 1, NULL));
	}
	return loss;
}

/* Trains the layers from `first` on. Returns the loss of the last step, on the last stage. */
static float train(rondo_comm *comm, struct layer *layers, int first, int count)
{
	float loss = 0;

	for (int k = 0; k < count; k++)
		for (int i = 0; i < WIDTH * WIDTH; i++)
			layers[k].w[i / WIDTH][i % WIDTH] = draw(first + k, i);
	/* The other stages receive theirs. */
	for (int i = 0; i < MICRO_BATCHES * VALUES && first == 0; i++)
		layers->x[i / VALUES][i % VALUES] = draw(100, i);
	for (int n = 0; n < STEPS; n++) {
		for (int k = 0; k < count; k++)
			memset(layers[k].dw, 0, sizeof(layers[k].dw));
		loss = step(comm, layers, count);
		for (int i = 0; i < count * WIDTH * WIDTH; i++) {
			struct layer *layer = &layers[i / (WIDTH * WIDTH)];
			int o = i / WIDTH % WIDTH;

			layer->w[o][i % WIDTH] -= LEARNING_RATE * layer->dw[o][i % WIDTH];
		}
	}
	return loss;
}

int main(void)
{
	static struct layer own[LAYERS], all[LAYERS];
	rondo_comm *comm;
	float loss, serial_loss;
	int rank, size, count, same = 1;

	check(rondo_comm_create(&comm, NULL));
	rank = rondo_comm_rank(comm);
	size = rondo_comm_size(comm);
	if (LAYERS % size != 0) {
		fprintf(stderr, "%d ranks cannot share %d layers evenly\n", size, LAYERS);
		return 1;
	}
	count = LAYERS / size;
	loss = train(comm, own, rank * count, count);
	serial_loss = train(NULL, all, 0, LAYERS);

	check(rondo_broadcast(comm, &loss, &loss, 1, RONDO_F32, size - 1, NULL));
	for (int k = 0; k < count; k++)
		for (int i = 0; i < WIDTH * WIDTH; i++)
			same &= fabsf(own[k].w[i / WIDTH][i % WIDTH] -
					all[rank * count + k].w[i / WIDTH][i % WIDTH]) <= TOLERANCE;
	printf("rank %d of %d: %d of %d layers, loss %.5f, serial %.5f, %s\n", rank, size, count,
		LAYERS, loss, serial_loss, same ? "the same weights" : "OTHER WEIGHTS");
	check(rondo_comm_destroy(comm));
	return same ? 0 : 1;
}
