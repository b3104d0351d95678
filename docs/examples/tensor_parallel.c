/*
 * Tensor parallelism: each rank has a part of every layer. A block is two layers, W2 relu(W1 x).
 * W1 is split by its outputs (column parallel) and W2 by its inputs (row parallel), so a rank has
 * some hidden units with all of their weights. Ranks then meet twice a block and step: one
 * all-reduce adds up the outputs in the forward pass, another the gradient of the inputs in the
 * backward pass (https://arxiv.org/abs/1909.08053, section 3).
 *
 *     rondo-run --nproc-per-node 4 ./tensor_parallel
 *
 * The result is compared with that of the whole model in one process.
 */
#include <float.h>
#include <math.h>
#include <rondo.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define BLOCKS 2
#define BATCH 8
#define WIDTH 6
#define HIDDEN 16 /* of all ranks together */
#define STEPS 50
#define LEARNING_RATE 0.05f
/* A sum in another order: each sample of each step is rounded another way. */
#define TOLERANCE (STEPS * BATCH * FLT_EPSILON)

typedef float activations[BATCH][WIDTH];

/* One rank's hidden units of a block. */
struct block {
	float w[2][HIDDEN][WIDTH]; /* W1, and W2 transposed: a row of each for a unit */
	float h[BATCH][HIDDEN]; /* outputs of the units */
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

/* Adds up what the ranks' units contribute. */
static void add_up(rondo_comm *comm, activations values)
{
	if (comm)
		check(rondo_all_reduce(
			comm, values, values, (size_t)BATCH * WIDTH, RONDO_F32, RONDO_SUM, NULL));
}

static void forward(rondo_comm *comm, struct block *block, int units, activations x, activations y)
{
	memset(y, 0, sizeof(activations));
	for (int s = 0; s < BATCH; s++)
		for (int u = 0; u < units; u++) {
			float sum = 0;

			for (int i = 0; i < WIDTH; i++)
				sum += block->w[0][u][i] * x[s][i];
			block->h[s][u] = sum > 0 ? sum : 0;
			for (int o = 0; o < WIDTH; o++)
				y[s][o] += block->w[1][u][o] * block->h[s][u];
		}
	add_up(comm, y);
}

/* From dy, the gradient of the outputs: updates the weights, and gives dx, that of the inputs. */
static void backward(rondo_comm *comm, struct block *block, int units, activations x,
	activations dy, activations dx)
{
	memset(dx, 0, sizeof(activations));
	for (int u = 0; u < units; u++) {
		float dw[2][WIDTH] = { { 0 } };

		for (int s = 0; s < BATCH; s++) {
			float dh = 0;

			for (int o = 0; o < WIDTH; o++) {
				dw[1][o] += dy[s][o] * block->h[s][u];
				dh += dy[s][o] * block->w[1][u][o];
			}
			for (int i = 0; i < WIDTH && block->h[s][u] > 0; i++) {
				dw[0][i] += dh * x[s][i];
				dx[s][i] += dh * block->w[0][u][i];
			}
		}
		for (int i = 0; i < WIDTH; i++) {
			block->w[0][u][i] -= LEARNING_RATE * dw[0][i] / BATCH;
			block->w[1][u][i] -= LEARNING_RATE * dw[1][i] / BATCH;
		}
	}
	add_up(comm, dx);
}

/* Trains the hidden units from `first` on. Returns the loss in the last step: the mean of half the
   squared error. */
static float train(rondo_comm *comm, struct block blocks[BLOCKS], int first, int units)
{
	/* x[b] is the input of block b; x[BLOCKS] is the output. Likewise their gradients. */
	activations x[BLOCKS + 1], gradients[BLOCKS + 1];
	float loss = 0;

	for (int b = 0; b < BLOCKS; b++)
		for (int i = 0; i < units * WIDTH; i++)
			for (int w = 0; w < 2; w++)
				blocks[b].w[w][i / WIDTH][i % WIDTH] =
					draw(2 * b + w, first * WIDTH + i);
	for (int i = 0; i < BATCH * WIDTH; i++)
		x[0][i / WIDTH][i % WIDTH] = 2 * draw(100, i);
	for (int step = 0; step < STEPS; step++) {
		for (int b = 0; b < BLOCKS; b++)
			forward(comm, &blocks[b], units, x[b], x[b + 1]);
		loss = 0;
		for (int i = 0; i < BATCH * WIDTH; i++) {
			float error = x[BLOCKS][i / WIDTH][i % WIDTH] - draw(101, i);

			gradients[BLOCKS][i / WIDTH][i % WIDTH] = error;
			loss += error * error / (2 * BATCH);
		}
		for (int b = BLOCKS - 1; b >= 0; b--)
			backward(comm, &blocks[b], units, x[b], gradients[b + 1], gradients[b]);
	}
	return loss;
}

int main(void)
{
	static struct block part[BLOCKS], whole[BLOCKS];
	rondo_comm *comm;
	float loss, serial_loss;
	int rank, size, units, same = 1;

	check(rondo_comm_create(&comm, NULL));
	rank = rondo_comm_rank(comm);
	size = rondo_comm_size(comm);
	if (HIDDEN % size != 0) {
		fprintf(stderr, "%d ranks cannot share %d hidden units evenly\n", size, HIDDEN);
		return 1;
	}
	units = HIDDEN / size;
	loss = train(comm, part, rank * units, units);
	serial_loss = train(NULL, whole, 0, HIDDEN);

	for (int b = 0; b < BLOCKS; b++)
		for (int i = 0; i < units * WIDTH; i++)
			for (int w = 0; w < 2; w++)
				same &= fabsf(part[b].w[w][i / WIDTH][i % WIDTH] -
						whole[b].w[w][rank * units + i / WIDTH]
							  [i % WIDTH]) <= TOLERANCE;
	printf("rank %d of %d: %d of %d hidden units, loss %.5f, serial %.5f, %s\n", rank, size,
		units, HIDDEN, loss, serial_loss, same ? "the same weights" : "OTHER WEIGHTS");
	check(rondo_comm_destroy(comm));
	return same ? 0 : 1;
}
