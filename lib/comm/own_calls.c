#include "comm/own_calls.h"

#include "comm/run.h"

static int call_now(struct rondo_comm *comm, struct rd_call call)
{
	struct rd_task task = { .comm = comm,
		.call = call,
		.timeout_ms = rd_comm_timeout_ms(comm),
		.turn = comm->issued++,
		.after = -1 };

	return rd_run(&task, 1);
}

int rd_own_transfer(struct rondo_comm *comm, int from, int to, void *bytes, size_t size)
{
	return call_now(comm, (struct rd_call){
				      .problem = { RD_TRANSFER, comm->rank, comm->size, from, to,
					      comm->layouts[0] },
				      .type = RONDO_U8,
				      .count = size,
				      .in = comm->rank == from ? bytes : NULL,
				      .out = comm->rank == to ? bytes : NULL,
			      });
}

/* Rounds of rd_linear: the rank sends `step` ranks on, and receives from as many before. */
int rd_own_barrier(struct rondo_comm *comm, const int *ranks, int count, int at)
{
	int err = 0;

	for (int step = 1; step < count && !err; step *= 2) {
		int before = (at - step % count + count) % count;

		err = rd_own_transfer(comm, comm->rank, ranks[(at + step) % count], NULL, 0);
		if (!err)
			err = rd_own_transfer(comm, ranks[before], comm->rank, NULL, 0);
	}
	return err;
}

int rd_own_broadcast(
	struct rondo_comm *comm, const int *ranks, int count, int at, void *bytes, size_t size)
{
	int err = 0, step = 1;

	while (step < count && !(at & step))
		step *= 2;
	if (at > 0)
		err = rd_own_transfer(comm, ranks[at & (at - 1)], comm->rank, bytes, size);
	for (step /= 2; step > 0 && !err; step /= 2)
		if (at + step < count)
			err = rd_own_transfer(comm, comm->rank, ranks[at + step], bytes, size);
	return err;
}
