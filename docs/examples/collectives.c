/*
 * All-reduce, reduce-scatter and all-gather. Rank r of n has the vector [r, r+1, ..., r+n-1].
 *
 *     rondo-run --nproc-per-node 4 ./collectives
 */
#include <rondo.h>
#include <stdio.h>
#include <stdlib.h>

#define RANKS_MAX 64

/* Ends this rank and prints the reason. The other ranks' next calls then return an error. */
static void check(int err)
{
	if (!err)
		return;
	fprintf(stderr, "%s: %s\n", rondo_error_name(err), rondo_last_error());
	exit(1);
}

/* Adds " name [a, b, ...]" to the text, which has room for it. */
static int append(char *text, const char *name, const float *values, int count)
{
	int length = sprintf(text, " %s [", name);

	for (int i = 0; i < count; i++)
		length += sprintf(text + length, "%s%g", i ? ", " : "", values[i]);
	return length + sprintf(text + length, "]");
}

int main(void)
{
	float vector[RANKS_MAX], sum[RANKS_MAX], part, gathered[RANKS_MAX];
	char line[4096];
	rondo_comm *comm;
	int rank, size, length, wrong = 0;

	check(rondo_comm_create(&comm, NULL));
	rank = rondo_comm_rank(comm);
	size = rondo_comm_size(comm);
	if (size > RANKS_MAX) {
		fprintf(stderr, "%d ranks: this example has room for %d\n", size, RANKS_MAX);
		return 1;
	}
	for (int i = 0; i < size; i++)
		vector[i] = (float)(rank + i);

	/* Every rank gets the sum of all vectors. */
	check(rondo_all_reduce(comm, vector, sum, (size_t)size, RONDO_F32, RONDO_SUM, NULL));
	/* Rank r gets element r of that sum: the count is that of a rank's block. */
	check(rondo_reduce_scatter(comm, vector, &part, 1, RONDO_F32, RONDO_SUM, NULL));
	/* Every rank gets the blocks of all: both together are an all-reduce. */
	check(rondo_all_gather(comm, &part, gathered, 1, RONDO_F32, NULL));

	length = sprintf(line, "rank %d:", rank);
	length += append(line + length, "vector", vector, size);
	length += append(line + length, "all-reduce", sum, size);
	length += append(line + length, "reduce-scatter", &part, 1);
	append(line + length, "all-gather", gathered, size);
	puts(line);

	for (int i = 0; i < size; i++) {
		float expected = (float)(size * (size - 1) / 2 + size * i);

		wrong |= sum[i] != expected || gathered[i] != expected;
	}
	check(rondo_comm_destroy(comm));
	if (wrong)
		fprintf(stderr, "rank %d: a wrong sum\n", rank);
	return wrong;
}
