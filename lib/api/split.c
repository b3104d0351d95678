/*
 * Splitting a comm into parts. If no rank lacks memory, the ranks exchange their colors and keys,
 * from which each computes its part, and makes it (create_group.c). A duplicate needs no such
 * exchange. Last, all ranks learn whether each has made it, so that those of a part return the
 * same.
 */
#include <stdio.h>
#include <stdlib.h>

#include "api/communicator.h"
#include "base/error.h"

/* The arguments of one rank. */
struct arguments {
	int32_t color, key;
};

struct split {
	rondo_comm *comm;
	struct arguments *arguments; /* [size of the old comm] */
	int32_t *results; /* the same */
	int *ranks; /* [size] of the part, as ranks of the old comm */
	int size; /* 0: this rank is in none */
	rondo_comm *made;
};

/* ---- The parts ------------------------------------------------------------------------------ */

/* The ranks of this rank's part, by their keys, and by their numbers where those are equal. */
static void find_part(struct split *split)
{
	const struct arguments *arguments = split->arguments;
	int32_t color = arguments[split->comm->rank].color;

	for (int rank = 0; rank < split->comm->size && color >= 0; rank++) {
		int at = split->size;

		if (arguments[rank].color != color)
			continue;
		for (; at > 0 && arguments[split->ranks[at - 1]].key > arguments[rank].key; at--)
			split->ranks[at] = split->ranks[at - 1];
		split->ranks[at] = rank;
		split->size++;
	}
}

/* No other call of these ranks has this number, nor a group of theirs. */
static uint64_t purpose(const rondo_comm *comm)
{
	return UINT64_C(1) << 63 | atomic_load(&comm->activity.calls);
}

/* ---- The split ------------------------------------------------------------------------------ */

/* Some rank could not join its part. Where it has died, the error is this comm's, with the numbers
   that the program knows; else this rank's own. */
static int find_reason(struct split *split, int own)
{
	char reason[RD_REASON_SIZE];
	int err;

	snprintf(reason, sizeof(reason), "%s", rondo_last_error());
	err = rondo_barrier(split->comm, NULL);
	return err ? err : own ? rd_fail(own, "%s", reason) : 0;
}

/* The first rank of the part that could not join it. */
static int find_failed(const struct split *split)
{
	for (int i = 0; i < split->size; i++)
		if (split->results[split->ranks[i]])
			return split->ranks[i];
	return -1;
}

static int make_part(struct split *split)
{
	rondo_comm *comm = split->comm;
	int32_t own = 0, any;
	int err, failed;

	find_part(split);
	if (split->size > 0)
		own = rd_comm_make_group(
			comm, split->ranks, split->size, purpose(comm), &split->made);
	/* Fewer steps than an all-gather of the results, which few splits need. */
	any = own != 0;
	err = rondo_all_reduce(comm, &any, &any, 1, RONDO_I32, RONDO_MAX, NULL);
	if (err || !any)
		return err;
	err = rondo_all_gather(comm, &own, split->results, 1, RONDO_I32, NULL);
	if (!err)
		err = find_reason(split, own);
	if (err)
		return err;
	failed = find_failed(split);
	return failed < 0
		       ? 0
		       : rd_fail(split->results[failed], "rank %d could not join its part", failed);
}

static int run_split(struct split *split, int color, int key, const char *function)
{
	rondo_comm *comm = split->comm;
	struct arguments own = { color, key };
	bool differs = color != 0 || key != comm->rank;
	int err;

	split->arguments = calloc(comm->size, sizeof(*split->arguments));
	split->results = calloc(comm->size, sizeof(*split->results));
	split->ranks = calloc(comm->size, sizeof(*split->ranks));
	err = rd_comm_agree_on_memory(
		comm, split->arguments && split->results && split->ranks, &differs, function);
	if (err)
		return err;
	if (differs)
		err = rondo_all_gather(comm, &own, split->arguments, sizeof(own), RONDO_U8, NULL);
	for (int rank = 0; rank < comm->size && !differs; rank++)
		split->arguments[rank].key = rank;
	return err ? err : make_part(split);
}

static int split_comm(rondo_comm *comm, int color, int key, rondo_comm **part, const char *function)
{
	struct split split = { .comm = comm };
	int err;

	comm->calls_itself = true;
	err = run_split(&split, color, key, function);
	comm->calls_itself = false;
	free(split.arguments);
	free(split.results);
	free(split.ranks);
	if (err)
		return rd_comm_give_up(&split.made, err);
	*part = split.made;
	return 0;
}

int rondo_comm_split(rondo_comm *comm, int color, int key, rondo_comm **part)
{
	int err = rd_comm_check_origin(comm, part, "rondo_comm_split");

	return err ? err : split_comm(comm, color, key, part, "rondo_comm_split");
}

int rondo_comm_duplicate(rondo_comm *comm, rondo_comm **copy)
{
	int err = rd_comm_check_origin(comm, copy, "rondo_comm_duplicate");

	return err ? err : split_comm(comm, 0, comm->rank, copy, "rondo_comm_duplicate");
}
