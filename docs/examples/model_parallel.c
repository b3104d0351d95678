/*
 * Model parallelism, combined with data parallelism. The model is in two halves, on the two ranks
 * of a pair: activations go from the first to the second, and their gradients come back. Each pair
 * is a replica, with a part of the batch. Ranks with the same half add up its gradient.
 *
 *     rondo-run --nproc-per-node 4 ./model_parallel
 *
 * The result is compared with that of both halves in one process.
 */
#include <float.h>
#include <math.h>
#include <rondo.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define BATCH 12 /* samples of all replicas together */
#define WIDTH 8
#define STEPS 50
#define LEARNING_RATE 0.5f
/* A sum in another order: each sample of each step is rounded another way. */
#define TOLERANCE (STEPS * BATCH * FLT_EPSILON)

/* y = f(W x), where f(s) is s, or s / 10 below 0 (leaky ReLU). */
struct half {
	float w[WIDTH * WIDTH], dw[WIDTH * WIDTH];
	float x[BATCH * WIDTH], y[BATCH * WIDTH]; /* inputs and outputs */
	float dx[BATCH * WIDTH], dy[BATCH * WIDTH]; /* their gradients */
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

static void forward(struct half *half, int samples)
{
	for (int i = 0; i < samples * WIDTH; i++) {
		float sum = 0;

		for (int k = 0; k < WIDTH; k++)
			sum += half->w[i % WIDTH * WIDTH + k] * half->x[i / WIDTH * WIDTH + k];
		half->y[i] = sum > 0 ? sum : sum / 10;
	}
}

/* From dy to dw and dx. */
static void backward(struct half *half, int samples)
{
	memset(half->dw, 0, sizeof(half->dw));
	memset(half->dx, 0, sizeof(half->dx));
	for (int i = 0; i < samples * WIDTH; i++) {
		float dsum = half->dy[i] * (half->y[i] > 0 ? 1 : 0.1f);
		int o = i % WIDTH * WIDTH, sample = i / WIDTH * WIDTH;

		for (int k = 0; k < WIDTH; k++) {
			half->dw[o + k] += dsum * half->x[sample + k];
			half->dx[sample + k] += dsum * half->w[o + k];
		}
	}
}

/* The samples' part of the loss, half the mean squared error; and its gradient. */
static float compare(const float *y, float *dy, int first, int samples)
{
	float loss = 0;

	for (int i = 0; i < samples * WIDTH; i++) {
		float error = y[i] - draw(11, first * WIDTH + i);

		dy[i] = error / (BATCH * WIDTH);
		loss += error * dy[i] / 2;
	}
	return loss;
}

/* From rank `from` of the pair to the other; without a pair, from one half to the other. */
static void pass(rondo_comm *pair, int from, const float *y, float *x, int samples)
{
	size_t count = (size_t)samples * WIDTH;

	if (!pair)
		memcpy(x, y, count * sizeof(float));
	else if (rondo_comm_rank(pair) == from)
		check(rondo_send(pair, y, count, RONDO_F32, 1 - from, NULL));
	else
		check(rondo_recv(pair, x, count, RONDO_F32, from, NULL));
}

static void update(rondo_comm *equals, struct half *half)
{
	if (equals)
		check(rondo_all_reduce(equals, half->dw, half->dw, (size_t)WIDTH * WIDTH, RONDO_F32,
			RONDO_SUM, NULL));
	for (int i = 0; i < WIDTH * WIDTH; i++)
		half->w[i] -= LEARNING_RATE * half->dw[i];
}

/* Trains one half, or both without a pair. Returns the last loss where the second half is. */
static float train(
	rondo_comm *pair, rondo_comm *equals, struct half halves[2], int first, int samples)
{
	int has_first = !pair || rondo_comm_rank(pair) == 0;
	int has_second = !pair || rondo_comm_rank(pair) == 1;
	float loss = 0;

	for (int i = 0; i < 2 * WIDTH * WIDTH; i++)
		halves[i % 2].w[i / 2] = 2 * draw(i % 2, i / 2);
	for (int i = 0; i < samples * WIDTH; i++)
		halves[0].x[i] = 2 * draw(10, first * WIDTH + i);
	for (int step = 0; step < STEPS; step++) {
		if (has_first)
			forward(&halves[0], samples);
		pass(pair, 0, halves[0].y, halves[1].x, samples);
		if (has_second) {
			forward(&halves[1], samples);
			loss = compare(halves[1].y, halves[1].dy, first, samples);
			backward(&halves[1], samples);
			update(equals, &halves[1]);
		}
		pass(pair, 1, halves[1].dx, halves[0].dy, samples);
		if (has_first) {
			backward(&halves[0], samples);
			update(equals, &halves[0]);
		}
	}
	return loss;
}

int main(void)
{
	static struct half own[2], all[2];
	rondo_comm *comm, *pair, *equals;
	float loss, serial_loss;
	int rank, size, samples, same = 1;

	check(rondo_comm_create(&comm, NULL));
	rank = rondo_comm_rank(comm);
	size = rondo_comm_size(comm);
	if (size % 2 != 0 || BATCH % (size / 2) != 0) {
		fprintf(stderr, "%d ranks cannot share %d samples in pairs\n", size, BATCH);
		return 1;
	}
	check(rondo_comm_split(comm, rank / 2, rank, &pair));
	check(rondo_comm_split(comm, rank % 2, rank, &equals));
	samples = BATCH / (size / 2);
	loss = train(pair, equals, own, rank / 2 * samples, samples);
	serial_loss = train(NULL, NULL, all, 0, BATCH);

	check(rondo_all_reduce(comm, &loss, &loss, 1, RONDO_F32, RONDO_SUM, NULL));
	for (int i = 0; i < WIDTH * WIDTH; i++)
		same &= fabsf(own[rank % 2].w[i] - all[rank % 2].w[i]) <= TOLERANCE;
	printf("rank %d of %d: half %d of replica %d, loss %.5f, serial %.5f, %s\n", rank, size,
		rank % 2, rank / 2, loss, serial_loss, same ? "the same weights" : "OTHER WEIGHTS");
	check(rondo_comm_destroy(equals));
	check(rondo_comm_destroy(pair));
	check(rondo_comm_destroy(comm));
	return same ? 0 : 1;
}
