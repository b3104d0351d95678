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
#define REPEATS 4 /* how often a bucket is computed, to take longer */

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

static void add_up(rondo_comm *comm, int b, rondo_stream *stream)
{
	check(rondo_all_reduce(
		comm, gradients[b], gradients[b], COUNT, RONDO_F32, RONDO_SUM, stream));
}

/* A step: all buckets. Without a stream, each all-reduce is over before the next bucket begins. */
static double step(rondo_comm *comm, rondo_stream *stream)
{
	double began;

	check(rondo_barrier(comm, NULL));
	began = milliseconds();
	for (int b = 0; b < BUCKETS; b++) {
		compute(rondo_comm_rank(comm), b);
		/* On a stream this returns at once. The bucket must stay as it is from now on. */
		add_up(comm, b, stream);
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

int main(void)
{
	rondo_comm *comm;
	rondo_stream *stream;
	double times[4];
	int rank, size, right;

	check(rondo_comm_create(&comm, NULL));
	check(rondo_stream_create(&stream));
	rank = rondo_comm_rank(comm);
	size = rondo_comm_size(comm);
	step(comm, NULL); /* the first use of memory and links takes longer */

	times[0] = milliseconds();
	for (int b = 0; b < BUCKETS; b++)
		compute(rank, b);
	times[0] = milliseconds() - times[0];
	check(rondo_barrier(comm, NULL));
	times[1] = milliseconds();
	for (int b = 0; b < BUCKETS; b++)
		add_up(comm, b, NULL);
	times[1] = milliseconds() - times[1];
	times[2] = step(comm, NULL);
	right = sums_are_right(size);
	times[3] = step(comm, stream);
	right &= sums_are_right(size);

	/* Of each time, that of the slowest rank. */
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
