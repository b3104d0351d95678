/*
 * Checkpoints: rank 0 writes the state of the training every 10 steps. A job that died continues
 * from the last of them, also on another number of ranks.
 *
 *     rondo-run --nproc-per-node 4 ./checkpoint FILE STEPS [KILL]
 *
 * KILL: the step at which the last rank kills itself, to try it. The file is written beside its
 * place, then renamed: FILE is a whole checkpoint at any time, the old one or the new one.
 *
 * The model is a linear regression, trained by gradient descent with momentum on all ranks
 * (data_parallel.c). The momentum is part of the state.
 */
#define _POSIX_C_SOURCE 200809L
#include <errno.h>
#include <rondo.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define FEATURES 4
#define SAMPLES 60
#define EVERY 10 /* steps from one checkpoint to the next */
#define LEARNING_RATE 0.01
#define MOMENTUM 0.9

struct state {
	char magic[8];
	int64_t step; /* of the next one */
	double weights[FEATURES], momentum[FEATURES];
	double loss; /* in the last step */
	uint64_t hash; /* of all bytes before it */
};

static const char magic[8] = "example";

/* Ends this rank and prints the reason. The other ranks' next calls then return an error. */
static void check(int err)
{
	if (!err)
		return;
	fprintf(stderr, "%s: %s\n", rondo_error_name(err), rondo_last_error());
	exit(1);
}

static void fail(const char *path, const char *reason)
{
	fprintf(stderr, "%s: %s\n", path, reason);
	exit(1);
}

/* FNV-1a */
static uint64_t hash(const struct state *state)
{
	uint64_t value = 14695981039346656037u;

	for (size_t i = 0; i < offsetof(struct state, hash); i++)
		value = (value ^ ((const unsigned char *)state)[i]) * 1099511628211u;
	return value;
}

static void save(const char *path, struct state *state)
{
	char temporary[4096];
	FILE *file;
	int fd;

	state->hash = hash(state);
	/* No other job, nor a link that someone has put there, has this name. */
	if (snprintf(temporary, sizeof(temporary), "%s.XXXXXX", path) >= (int)sizeof(temporary))
		fail(path, "the name is too long");
	fd = mkstemp(temporary);
	file = fd < 0 ? NULL : fdopen(fd, "wb");
	if (!file)
		fail(temporary, strerror(errno));
	/* On the disk before the name says so: power may fail, too. */
	if (fwrite(state, sizeof(*state), 1, file) != 1 || fflush(file) || fsync(fileno(file)) ||
		fclose(file) || rename(temporary, path)) {
		int error = errno;

		remove(temporary);
		fail(temporary, strerror(error));
	}
}

/* A missing file leaves the state as it is, and a damaged one is an error. */
static void load(const char *path, struct state *state)
{
	FILE *file = fopen(path, "rb");
	struct state saved;

	if (!file && errno == ENOENT)
		return;
	if (!file)
		fail(path, strerror(errno));
	if (fread(&saved, sizeof(saved), 1, file) != 1 || fgetc(file) != EOF ||
		memcmp(saved.magic, magic, sizeof(magic)) != 0 || saved.hash != hash(&saved))
		fail(path, "no checkpoint of this program, or a damaged one");
	fclose(file);
	*state = saved;
}

/* One step on all samples, of which this rank takes every size-th. */
static void step(rondo_comm *comm, struct state *state)
{
	double gradient[FEATURES + 1] = { 0 }; /* the last is the loss */

	for (int s = rondo_comm_rank(comm); s < SAMPLES; s += rondo_comm_size(comm)) {
		double x[FEATURES], error = -(s % 7);

		for (int f = 0; f < FEATURES; f++) {
			x[f] = (s * (f + 2) % 11) / 5.0 - 1;
			error += state->weights[f] * x[f];
		}
		for (int f = 0; f < FEATURES; f++)
			gradient[f] += 2 * error * x[f] / SAMPLES;
		gradient[FEATURES] += error * error / SAMPLES;
	}
	check(rondo_all_reduce(comm, gradient, gradient, FEATURES + 1, RONDO_F64, RONDO_SUM, NULL));
	for (int f = 0; f < FEATURES; f++) {
		state->momentum[f] = MOMENTUM * state->momentum[f] + gradient[f];
		state->weights[f] -= LEARNING_RATE * state->momentum[f];
	}
	state->loss = gradient[FEATURES];
	state->step++;
}

int main(int argc, char **argv)
{
	struct state state = { .step = 0 };
	rondo_comm *comm;
	int rank, size;
	long steps = argc > 2 ? strtol(argv[2], NULL, 10) : 0;
	long kill_at = argc > 3 ? strtol(argv[3], NULL, 10) : -1;

	if (argc < 3 || argc > 4 || steps <= 0) {
		fprintf(stderr, "usage: checkpoint FILE STEPS [KILL]\n");
		return 2;
	}
	memcpy(state.magic, magic, sizeof(magic));
	check(rondo_comm_create(&comm, NULL));
	rank = rondo_comm_rank(comm);
	size = rondo_comm_size(comm);
	if (rank == 0)
		load(argv[1], &state);
	check(rondo_broadcast(comm, &state, &state, sizeof(state), RONDO_U8, 0, NULL));
	if (rank == 0) {
		printf("%d ranks begin at step %d of %ld\n", size, (int)state.step, steps);
		fflush(stdout);
	}
	while (state.step < steps) {
		if (state.step == kill_at && rank == size - 1)
			raise(SIGKILL);
		step(comm, &state);
		if (rank == 0 && (state.step % EVERY == 0 || state.step == steps))
			save(argv[1], &state);
	}
	if (rank == 0)
		printf("%d ranks end at step %d: loss %.9f\n", size, (int)state.step, state.loss);
	check(rondo_comm_destroy(comm));
	return 0;
}
