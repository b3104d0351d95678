/*
 * Inside an MPI program: Rondo's ranks are those of MPI_COMM_WORLD. Rank 0 makes a unique id, and
 * MPI broadcasts it, as with NCCL.
 *
 *     mpicc mpi.c $(pkg-config --cflags --libs rondo) -o mpi
 *     mpirun -n 4 ./mpi
 */
#include <mpi.h>
#include <rondo.h>
#include <stdio.h>
#include <stdlib.h>

/* Ends all ranks, MPI's way. */
static void fail(const char *what, const char *reason)
{
	fprintf(stderr, "%s: %s\n", what, reason);
	MPI_Abort(MPI_COMM_WORLD, 1);
	exit(1);
}

static void check(int err)
{
	if (err)
		fail(rondo_error_name(err), rondo_last_error());
}

/* A comm of the ranks of this MPI communicator. */
static rondo_comm *create_comm(MPI_Comm ranks)
{
	struct rondo_config config = RONDO_CONFIG_INIT;
	struct rondo_unique_id id;
	rondo_comm *comm;

	MPI_Comm_rank(ranks, &config.rank);
	MPI_Comm_size(ranks, &config.size);
	if (config.rank == 0)
		check(rondo_get_unique_id(&id));
	MPI_Bcast(&id, sizeof(id), MPI_BYTE, 0, ranks);
	config.unique_id = &id;
	check(rondo_comm_create(&comm, &config));
	return comm;
}

int main(int argc, char **argv)
{
	rondo_comm *comm;
	float sum, expected;
	int rank, size;

	MPI_Init(&argc, &argv);
	MPI_Comm_size(MPI_COMM_WORLD, &size);
	if (size == 1 && getenv("WORLD_SIZE") && atoi(getenv("WORLD_SIZE")) > 1)
		fail("mpi", "each rank is an MPI job of its own: start it with mpirun");
	comm = create_comm(MPI_COMM_WORLD);
	rank = rondo_comm_rank(comm);
	sum = expected = (float)rank + 1;
	check(rondo_all_reduce(comm, &sum, &sum, 1, RONDO_F32, RONDO_SUM, NULL));
	MPI_Allreduce(MPI_IN_PLACE, &expected, 1, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD);
	printf("rank %d of %d: Rondo's sum is %g, MPI's is %g\n", rank, size, sum, expected);
	check(rondo_comm_destroy(comm));
	MPI_Finalize();
	return sum == expected ? 0 : 1;
}
