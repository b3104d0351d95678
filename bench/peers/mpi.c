/* Open MPI and MPICH: the same source, compiled by either's mpicc. */
#include <mpi.h>

#include "measure.h"

/* MPI's default error handler ends the job with a message, so no call returns an error. */

static void barrier(void)
{
	MPI_Barrier(MPI_COMM_WORLD);
}

static void greatest(double *value)
{
	MPI_Allreduce(MPI_IN_PLACE, value, 1, MPI_DOUBLE, MPI_MAX, MPI_COMM_WORLD);
}

static void run(enum peers_collective collective, const float *send, float *recv, size_t count)
{
	int n = (int)count;

	switch (collective) {
	case PEERS_ALL_REDUCE:
		MPI_Allreduce(send, recv, n, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD);
		break;
	case PEERS_REDUCE_SCATTER:
		MPI_Reduce_scatter_block(send, recv, n, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD);
		break;
	case PEERS_ALL_GATHER:
		MPI_Allgather(send, n, MPI_FLOAT, recv, n, MPI_FLOAT, MPI_COMM_WORLD);
		break;
	case PEERS_BROADCAST:
		MPI_Bcast(recv, n, MPI_FLOAT, 0, MPI_COMM_WORLD);
		break;
	default:
		MPI_Alltoall(send, n, MPI_FLOAT, recv, n, MPI_FLOAT, MPI_COMM_WORLD);
	}
}

int main(int argc, char **argv)
{
	struct peers_library library = { .barrier = barrier, .greatest = greatest, .run = run };

	MPI_Init(&argc, &argv);
	MPI_Comm_rank(MPI_COMM_WORLD, &library.rank);
	MPI_Comm_size(MPI_COMM_WORLD, &library.size);
	int status = peers_measure(&library, argc, argv);
	if (status)
		MPI_Abort(MPI_COMM_WORLD, status);
	MPI_Finalize();
	return 0;
}
