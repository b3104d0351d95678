/*
 * Registered memory: ranks add up the contents of mapped files, in place and in buckets.
 *
 *     rondo-run --nproc-per-node 4 ./mapped_file
 *
 * Rondo has not allocated the memory, so the program registers it: once, for all its calls. Where
 * hosts have RDMA, network cards then access it themselves. Elsewhere nothing changes. The
 * registration ends before the memory is unmapped.
 */
#define _POSIX_C_SOURCE 200809L
#include <rondo.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>

#define COUNT (256 << 10)
#define BUCKET (64 << 10)

/* Ends this rank and prints the reason. The other ranks' next calls then return an error. */
static void check(int err)
{
	if (!err)
		return;
	fprintf(stderr, "%s: %s\n", rondo_error_name(err), rondo_last_error());
	exit(1);
}

/* Writes this rank's values to a file, and maps it: writes go to a copy, and not to the file. */
static float *map_values(int rank)
{
	FILE *file = tmpfile();
	float *values = MAP_FAILED;

	for (int i = 0; file && i < COUNT; i++) {
		float value = (float)(rank + i % 1000);

		fwrite(&value, sizeof(value), 1, file);
	}
	if (file && fflush(file) == 0)
		values = mmap(NULL, COUNT * sizeof(float), PROT_READ | PROT_WRITE, MAP_PRIVATE,
			fileno(file), 0);
	if (values == MAP_FAILED) {
		perror("a mapped file");
		exit(1);
	}
	fclose(file);
	return values;
}

int main(void)
{
	rondo_comm *comm;
	int rank, size, wrong = 0;
	float *values;

	check(rondo_comm_create(&comm, NULL));
	rank = rondo_comm_rank(comm);
	size = rondo_comm_size(comm);
	values = map_values(rank);

	check(rondo_mem_register(values, COUNT * sizeof(float)));
	for (float *bucket = values; bucket < values + COUNT; bucket += BUCKET)
		check(rondo_all_reduce(comm, bucket, bucket, BUCKET, RONDO_F32, RONDO_SUM, NULL));
	check(rondo_mem_deregister(values));

	for (int i = 0; i < COUNT; i++)
		wrong += values[i] != (float)(size * (size - 1) / 2 + size * (i % 1000));
	munmap(values, COUNT * sizeof(float));
	printf("rank %d of %d: %d values in %d buckets, %d wrong\n", rank, size, COUNT,
		COUNT / BUCKET, wrong);
	check(rondo_comm_destroy(comm));
	return wrong != 0;
}
