/*
 * Blocks of different lengths: rank r has r + 1 elements, 10 r, 10 r + 1, ....
 *
 *     rondo-run --nproc-per-node 3 ./v_variants
 *
 * counts[k] is the number of elements of block k. Blocks follow each other, unless an array of
 * their places is given (displs). Or each block has an address of its own, in a list.
 */
#include <rondo.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define RANKS_MAX 8
#define ROOM (RANKS_MAX * RANKS_MAX)

/* Ends this rank and prints the reason. The other ranks' next calls then return an error. */
static void check(int err)
{
	if (!err)
		return;
	fprintf(stderr, "%s: %s\n", rondo_error_name(err), rondo_last_error());
	exit(1);
}

static void print(int rank, const char *call, const int32_t *values, size_t count)
{
	char line[1024];
	int length = sprintf(line, "rank %d: %s [", rank, call);

	for (size_t i = 0; i < count; i++)
		length += sprintf(line + length, "%s%d", i ? ", " : "", (int)values[i]);
	printf("%s]\n", line);
}

int main(void)
{
	size_t counts[RANKS_MAX], to_each[RANKS_MAX], from_each[RANKS_MAX], sizes[RANKS_MAX];
	size_t displs[RANKS_MAX], own, total = 0;
	int32_t mine[RANKS_MAX], send[ROOM], recv[ROOM], all[ROOM];
	char name[32];
	void *names, *blocks[RANKS_MAX];
	rondo_comm *comm;
	int rank, size;

	check(rondo_comm_create(&comm, NULL));
	rank = rondo_comm_rank(comm);
	size = rondo_comm_size(comm);
	if (size > RANKS_MAX) {
		fprintf(stderr, "%d ranks: this example has room for %d\n", size, RANKS_MAX);
		return 1;
	}
	own = (size_t)rank + 1;
	for (int k = 0; k < size; k++) {
		counts[k] = (size_t)k + 1;
		total += counts[k];
	}
	for (int i = 0; i <= rank; i++)
		mine[i] = 10 * rank + i;

	/* All blocks, on every rank. */
	check(rondo_all_gather_v(comm, mine, all, counts, NULL, RONDO_I32, NULL));
	print(rank, "all_gather_v", all, total);

	/* The sum of all ranks' copies of `all`; block k of it to rank k. */
	check(rondo_reduce_scatter_v(comm, all, recv, counts, RONDO_I32, RONDO_SUM, NULL));
	print(rank, "reduce_scatter_v", recv, own);

	/* Rank r sends r + 1 elements to each, all of them 10 r + k to rank k. */
	for (int k = 0; k < size; k++) {
		to_each[k] = own;
		from_each[k] = counts[k];
		for (size_t i = 0; i < own; i++)
			send[(size_t)k * own + i] = 10 * rank + k;
	}
	check(rondo_all_to_all_v(
		comm, send, to_each, NULL, recv, from_each, NULL, RONDO_I32, NULL));
	print(rank, "all_to_all_v", recv, total);

	/* The last rank's block comes first on rank 0: displs tells where each begins. */
	for (int k = size - 1, place = 0; k >= 0; place += k + 1, k--)
		displs[k] = (size_t)place;
	check(rondo_gather_v(comm, mine, own, recv, counts, displs, RONDO_I32, 0, NULL));
	if (rank == 0)
		print(rank, "gather_v", recv, total);
	/* And back: each has its own block again. */
	check(rondo_scatter_v(comm, recv, counts, displs, mine, own, RONDO_I32, 0, NULL));
	print(rank, "scatter_v", mine, own);

	/* All blocks again, each in memory of its own. */
	for (int k = 0; k < size; k++) {
		blocks[k] = malloc(counts[k] * sizeof(int32_t));
		if (!blocks[k])
			return 1;
	}
	check(rondo_all_gather_list(comm, mine, blocks, counts, RONDO_I32, NULL));
	print(rank, "all_gather_list, the last block", blocks[size - 1], (size_t)size);
	for (int k = 0; k < size; k++)
		free(blocks[k]);

	/* Bytes, of which only the sender has the number. */
	sprintf(name, "rank %d%.*s;", rank, rank, "!!!!!!!!");
	check(rondo_gather_bytes(comm, name, strlen(name), &names, sizes, 0));
	if (rank == 0)
		printf("rank 0: gather_bytes \"%s\", the first has %zu bytes\n", (char *)names,
			sizes[0]);
	free(names);
	check(rondo_comm_destroy(comm));
	return 0;
}
