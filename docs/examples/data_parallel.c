/*
 * Data parallelism: each rank has the whole model and a part of every batch. One all-reduce a step
 * adds up the gradients, so every rank makes the same update. The result is compared with that of
 * one process which sees all samples.
 *
 *     rondo-run --nproc-per-node 4 ./data_parallel
 *
 * The model is a linear regression, y = w x + b, trained by gradient descent.
 */
#include <float.h>
#include <math.h>
#include <rondo.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define FEATURES 4
#define PARAMETERS (FEATURES + 1) /* the last is the bias */
#define SAMPLES 96
#define BATCH 12
#define EPOCHS 5
#define LEARNING_RATE 0.1f
/* A sum in another order: each sample of each step is rounded another way. */
#define TOLERANCE (EPOCHS * SAMPLES * FLT_EPSILON)

static float inputs[SAMPLES][FEATURES], targets[SAMPLES];

/* Ends this rank and prints the reason. The other ranks' next calls then return an error. */
static void check(int err)
{
	if (!err)
		return;
	fprintf(stderr, "%s: %s\n", rondo_error_name(err), rondo_last_error());
	exit(1);
}

/* The same samples on every rank: y = x0 - 2 x1 + 3 x2 - 4 x3 + 0.5 + x0 x1. No line fits them. */
static void make_samples(void)
{
	static const float truth[PARAMETERS] = { 1, -2, 3, -4, 0.5f };
	unsigned int state = 1;

	for (int s = 0; s < SAMPLES; s++) {
		targets[s] = truth[FEATURES];
		for (int f = 0; f < FEATURES; f++) {
			state = state * 1664525u + 1013904223u;
			inputs[s][f] = (float)(state >> 8) / (1 << 23) - 1;
			targets[s] += truth[f] * inputs[s][f];
		}
		targets[s] += inputs[s][0] * inputs[s][1];
	}
}

/* Adds a sample's part of the gradient of the batch's mean squared error; returns its error. */
static float add_gradient(const float *parameters, int sample, float *gradient)
{
	float error = parameters[FEATURES] - targets[sample];

	for (int f = 0; f < FEATURES; f++)
		error += parameters[f] * inputs[sample][f];
	for (int f = 0; f < FEATURES; f++)
		gradient[f] += 2 * error * inputs[sample][f] / BATCH;
	gradient[FEATURES] += 2 * error / BATCH;
	return error * error / BATCH;
}

/* Rank `rank` takes every size-th sample of a batch. Returns the loss of the last batch. */
static float train(rondo_comm *comm, int rank, int size, float *parameters)
{
	/* The loss lies behind the gradient: one all-reduce serves both. */
	float gradient[PARAMETERS + 1];

	for (int first = 0; first < EPOCHS * SAMPLES; first += BATCH) {
		memset(gradient, 0, sizeof(gradient));
		for (int s = rank; s < BATCH; s += size)
			gradient[PARAMETERS] +=
				add_gradient(parameters, (first + s) % SAMPLES, gradient);
		if (comm)
			check(rondo_all_reduce(comm, gradient, gradient, PARAMETERS + 1, RONDO_F32,
				RONDO_SUM, NULL));
		for (int p = 0; p < PARAMETERS; p++)
			parameters[p] -= LEARNING_RATE * gradient[p];
	}
	return gradient[PARAMETERS];
}

int main(void)
{
	float parameters[PARAMETERS] = { 0 }, serial[PARAMETERS] = { 0 };
	float loss, serial_loss;
	rondo_comm *comm;
	int rank, size, same = 1;

	check(rondo_comm_create(&comm, NULL));
	rank = rondo_comm_rank(comm);
	size = rondo_comm_size(comm);
	make_samples();
	loss = train(comm, rank, size, parameters);
	serial_loss = train(NULL, 0, 1, serial);

	for (int p = 0; p < PARAMETERS; p++)
		same &= fabsf(parameters[p] - serial[p]) <= TOLERANCE;
	printf("rank %d of %d: loss %.6f, serial %.6f, %s\n", rank, size, loss, serial_loss,
		same ? "the same parameters" : "OTHER PARAMETERS");
	check(rondo_comm_destroy(comm));
	return same ? 0 : 1;
}
