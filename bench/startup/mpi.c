/* A rank of Open MPI or MPICH: its start, up to its first all-reduce. An error ends the job. */
#include <mpi.h>
#include <stdio.h>

#include "moments.h"

int main(int argc, char **argv)
{
	struct moments moments = { .started = now_ns() };
	float value = 1, sum = 0;
	int size;

	if (argc != 2)
		return 2;
	MPI_Init(&argc, &argv);
	moments.joined = now_ns();
	MPI_Allreduce(&value, &sum, 1, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD);
	moments.called = now_ns();
	MPI_Comm_size(MPI_COMM_WORLD, &size);
	if (sum != (float)size || !moments_append(&moments, argv[1])) {
		fprintf(stderr, "mpi: sum %g of %d ranks\n", sum, size);
		MPI_Abort(MPI_COMM_WORLD, 1);
	}
	MPI_Finalize();
	return 0;
}
