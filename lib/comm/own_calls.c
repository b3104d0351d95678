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

int rd_own_barrier(struct rondo_comm *comm)
{
	return call_now(comm,
		(struct rd_call){
			.problem = { RD_BARRIER, comm->rank, comm->size, 0, 0, comm->layouts[0] },
			.type = RONDO_U8,
		});
}

int rd_own_broadcast(struct rondo_comm *comm, void *bytes, size_t size)
{
	int rank = comm->rank, err = 0, step = 1;

	while (step < comm->size && !(rank & step))
		step *= 2;
	if (rank > 0)
		err = rd_own_transfer(comm, rank & (rank - 1), rank, bytes, size);
	for (step /= 2; step > 0 && !err; step /= 2)
		if (rank + step < comm->size)
			err = rd_own_transfer(comm, rank, rank + step, bytes, size);
	return err;
}
