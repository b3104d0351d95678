#include "agree.h"

#include <stdlib.h>
#include <string.h>

int bench_agree_on_first(rondo_comm *comm, double *values, size_t count)
{
	int err = 0;

	if (rondo_comm_rank(comm) > 0)
		return rondo_recv(comm, values, count, RONDO_F64, 0, NULL);
	for (int peer = 1; peer < rondo_comm_size(comm) && !err; peer++)
		err = rondo_send(comm, values, count, RONDO_F64, peer, NULL);
	return err;
}

static void combine(double *into, const double *from, size_t count, rondo_op op)
{
	for (size_t i = 0; i < count; i++) {
		if (op == RONDO_SUM)
			into[i] += from[i];
		else if (op == RONDO_MIN ? from[i] < into[i] : from[i] > into[i])
			into[i] = from[i];
	}
}

/* On rank 0. */
static int take_all(rondo_comm *comm, double *values, size_t count, rondo_op op)
{
	double *theirs = calloc(count + 1, sizeof(*theirs));
	int err = theirs ? 0 : RONDO_MEMORY;

	for (int peer = 1; peer < rondo_comm_size(comm) && !err; peer++) {
		err = rondo_recv(comm, theirs, count, RONDO_F64, peer, NULL);
		if (!err)
			combine(values, theirs, count, op);
	}
	free(theirs);
	return err;
}

int bench_agree(rondo_comm *comm, double *values, size_t count, rondo_op op)
{
	int err = rondo_comm_rank(comm) > 0 ? rondo_send(comm, values, count, RONDO_F64, 0, NULL)
					    : take_all(comm, values, count, op);

	return err ? err : bench_agree_on_first(comm, values, count);
}

int bench_collect(rondo_comm *comm, const void *mine, void *all, size_t size)
{
	int err = 0;

	if (rondo_comm_rank(comm) > 0)
		return rondo_send(comm, mine, size, RONDO_U8, 0, NULL);
	memcpy(all, mine, size);
	for (int peer = 1; peer < rondo_comm_size(comm) && !err; peer++)
		err = rondo_recv(
			comm, (char *)all + (size_t)peer * size, size, RONDO_U8, peer, NULL);
	return err;
}
