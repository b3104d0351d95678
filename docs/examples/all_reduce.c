#include <rondo.h>
#include <stdio.h>

int main(void)
{
	rondo_comm *comm;
	float sum = 0;
	int err = rondo_comm_create(&comm, NULL);

	if (!err) {
		sum = (float)rondo_comm_rank(comm) + 1;
		err = rondo_all_reduce(comm, &sum, &sum, 1, RONDO_F32, RONDO_SUM, NULL);
	}
	if (err)
		fprintf(stderr, "%s\n", rondo_last_error());
	else
		printf("rank %d of %d: the sum is %g\n", rondo_comm_rank(comm),
			rondo_comm_size(comm), sum);
	rondo_comm_destroy(comm);
	return err ? 1 : 0;
}
