/*
 * Overlap: a stream runs an all-reduce in a thread of its own, while this thread computes the next
 * gradient. Prints the times of a step in which each waits for the other, and of one with overlap.
 *
 *     rondo-run --nproc-per-node 2 ./overlap
 *
 * Between hosts, a network moves the data meanwhile. On one host the stream's thread copies it, and
 * needs a core beside this one to gain time.
 */
#define _POSIX_C_SOURCE 200809L
#include <rondo.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#define BUCKETS 8
#define COUNT 500000 /* floats of a bucket of gradients */
#define REPEATS 16 /* how often a bucket is computed, to take longer */
#define ITERATIONS 3 /* of which the quickest counts */

static float gradients[BUCKETS][COUNT];

/* Ends this rank and prints the reason. The other ranks' next calls then return an error. */
static void check(int err)
{
	if (!err)
		return;
	fprintf(stderr, "%s: %s\n", rondo_error_name(err), rondo_last_error());
	exit(1);
}

static double milliseconds(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (double)now.tv_sec * 1e3 + (double)now.tv_nsec / 1e6;
}

/* Gradient i of bucket b on a rank is rank + b + i % 7. */
static void compute(int rank, int b)
{
	for (int repeat = 0; repeat < REPEATS; repeat++)
		for (int i = 0; i < COUNT; i++)
			gradients[b][i] = (float)(rank + b) + (float)(i % 7);
}

/* A step, over all buckets; in milliseconds. Without a stream, each all-reduce is over before the
   next bucket begins. */
static double step(rondo_comm *comm, int computes, int communicates, rondo_stream *stream)
{
	double began;

	check(rondo_barrier(comm, NULL));
	began = milliseconds();
	for (int b = 0; b < BUCKETS; b++) {
		if (computes)
			compute(rondo_comm_rank(comm), b);
		/* On a stream this returns at once. The bucket must stay as it is from now on. */
		if (communicates)
			check(rondo_all_reduce(comm, gradients[b], gradients[b], COUNT, RONDO_F32,
				RONDO_SUM, stream));
	}
	if (stream)
		check(rondo_stream_synchronize(stream));
	return milliseconds() - began;
}

static int sums_are_right(int size)
{
	int ranks = size * (size - 1) / 2;

	for (int b = 0; b < BUCKETS; b++)
		for (int i = 0; i < COUNT; i++)
			if (gradients[b][i] != (float)(ranks + size * (b + i % 7)))
				return 0;
	return 1;
}

static void keep_least(double *least, double time)
{
	if (*least == 0 || time < *least)
		*least = time;
}

int main(void)
{
	rondo_comm *comm;
	rondo_stream *stream;
	double times[4] = { 0 };
	int rank, right = 1;

	check(rondo_comm_create(&comm, NULL));
	check(rondo_stream_create(&stream));
	rank = rondo_comm_rank(comm);
	step(comm, 1, 1, NULL); /* the first use of memory and links takes longer */
	for (int n = 0; n < ITERATIONS; n++) {
		keep_least(&times[0], step(comm, 1, 0, NULL));
		keep_least(&times[1], step(comm, 0, 1, NULL));
		keep_least(&times[2], step(comm, 1, 1, NULL));
		right &= sums_are_right(rondo_comm_size(comm));
		keep_least(&times[3], step(comm, 1, 1, stream));
		right &= sums_are_right(rondo_comm_size(comm));
	}
	/* The slowest rank's time counts. */
	check(rondo_all_reduce(comm, times, times, 4, RONDO_F64, RONDO_MAX, NULL));
	if (rank == 0 && right)
		printf("computation %.1f ms, communication %.1f ms\n"
		       "one after the other %.1f ms, overlapped %.1f ms\n",
			times[0], times[1], times[2], times[3]);
	if (!right)
		fprintf(stderr, "rank %d: a wrong sum\n", rank);
	rondo_stream_destroy(stream);
	check(rondo_comm_destroy(comm));
	return right ? 0 : 1;
}
