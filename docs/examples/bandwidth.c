/*
 * Bandwidth of an all-reduce of COUNT floats (104,857,600: 400 MiB on each rank).
 *
 *     rondo-run --nproc-per-node 4 ./bandwidth [COUNT]
 *
 * Algorithm bandwidth is bytes / time, with the bytes of one rank's buffer. It falls as ranks are
 * added: each must send at least 2 (n - 1) / n times its buffer, and receive as much. Bus bandwidth
 * counts these bytes, so it compares with the speed of a link whatever the number of ranks:
 * https://github.com/NVIDIA/nccl-tests/blob/master/doc/PERFORMANCE.md
 */
#define _POSIX_C_SOURCE 200809L
#include <errno.h>
#include <rondo.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#define ITERATIONS 5

/* Ends this rank and prints the reason. The other ranks' next calls then return an error. */
static void check(int err)
{
	if (!err)
		return;
	fprintf(stderr, "%s: %s\n", rondo_error_name(err), rondo_last_error());
	exit(1);
}

static double seconds(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (double)now.tv_sec + (double)now.tv_nsec / 1e9;
}

/* 0 where the text is no number of floats that memory could hold. */
static size_t parse_count(const char *text)
{
	char *end;
	unsigned long long count;

	errno = 0;
	count = strtoull(text, &end, 10);
	if (errno || *text < '0' || *text > '9' || *end || count > SIZE_MAX / sizeof(float))
		return 0;
	return (size_t)count;
}

/* Also the first call, which maps memory and chooses an algorithm: it is not timed. */
static int sums_are_right(rondo_comm *comm, float *buffer, size_t count)
{
	int rank = rondo_comm_rank(comm), size = rondo_comm_size(comm);

	for (size_t i = 0; i < count; i++)
		buffer[i] = (float)(rank + (int)(i % 10));
	check(rondo_all_reduce(comm, buffer, buffer, count, RONDO_F32, RONDO_SUM, NULL));
	for (size_t i = 0; i < count; i++)
		if (buffer[i] != (float)(size * (size - 1) / 2 + size * (int)(i % 10)))
			return 0;
	return 1;
}

/* Seconds of one all-reduce: the mean of several, on the rank that took longest. */
static double measure(rondo_comm *comm, float *buffer, size_t count)
{
	double time;

	check(rondo_barrier(comm, NULL));
	time = seconds();
	for (int i = 0; i < ITERATIONS; i++)
		check(rondo_all_reduce(comm, buffer, buffer, count, RONDO_F32, RONDO_SUM, NULL));
	time = (seconds() - time) / ITERATIONS;
	check(rondo_all_reduce(comm, &time, &time, 1, RONDO_F64, RONDO_MAX, NULL));
	return time;
}

int main(int argc, char **argv)
{
	size_t count = argc > 1 ? parse_count(argv[1]) : 104857600;
	rondo_comm *comm;
	void *buffer;
	int size, right;

	if (!count || argc > 2) {
		fprintf(stderr, "usage: bandwidth [COUNT], a number of floats above 0\n");
		return 2;
	}
	check(rondo_comm_create(&comm, NULL));
	size = rondo_comm_size(comm);
	/* Memory that ranks on one host share: an all-reduce copies no byte that it need not. */
	check(rondo_mem_alloc(&buffer, count * sizeof(float)));
	right = sums_are_right(comm, buffer, count);
	if (!right) {
		fprintf(stderr, "rank %d: a wrong sum\n", rondo_comm_rank(comm));
	} else {
		double time = measure(comm, buffer, count);
		double algorithm = (double)count * sizeof(float) / time;
		double bus = algorithm * 2 * (size - 1) / size;

		if (rondo_comm_rank(comm) == 0)
			printf("all-reduce of %zu floats on %d ranks: %.3f ms, "
			       "algorithm bandwidth %.3f GB/s, bus bandwidth %.3f GB/s\n",
				count, size, time * 1e3, algorithm / 1e9, bus / 1e9);
	}
	check(rondo_mem_free(buffer));
	check(rondo_comm_destroy(comm));
	return right ? 0 : 1;
}
