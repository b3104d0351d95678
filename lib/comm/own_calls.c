#include "comm/own_calls.h"

#include "comm/run.h"

static struct rd_task transfer(struct rondo_comm *comm, int from, int to, void *bytes, size_t size)
{
	return (struct rd_task){ .comm = comm,
		.call = { .problem = { RD_TRANSFER, comm->rank, comm->size, from, to,
				  comm->layouts[0] },
			.type = RONDO_U8,
			.count = size,
			.in = comm->rank == from ? bytes : NULL,
			.out = comm->rank == to ? bytes : NULL },
		.timeout_ms = rd_comm_timeout_ms(comm),
		.turn = comm->issued++,
		.after = -1 };
}

int rd_own_transfer(struct rondo_comm *comm, int from, int to, void *bytes, size_t size)
{
	struct rd_task task = transfer(comm, from, to, bytes, size);

	return rd_run(&task, 1);
}

int rd_own_exchange(struct rondo_comm *comm, int peer, void *out, void *in, size_t size)
{
	struct rd_task tasks[] = { transfer(comm, comm->rank, peer, out, size),
		transfer(comm, peer, comm->rank, in, size) };

	tasks[1].ordinal = 1;
	return rd_run(tasks, 2);
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
