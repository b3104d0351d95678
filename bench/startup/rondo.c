/* A rank of Rondo: its start, up to its first all-reduce. */
#include <rondo.h>
#include <stdio.h>

#include "moments.h"

int main(int argc, char **argv)
{
	struct moments moments = { .started = now_ns() };
	float value = 1, sum = 0;
	rondo_comm *comm;
	int err;

	if (argc != 2)
		return 2;
	err = rondo_comm_create(&comm, NULL);
	moments.joined = now_ns();
	if (!err)
		err = rondo_all_reduce(comm, &value, &sum, 1, RONDO_F32, RONDO_SUM, NULL);
	moments.called = now_ns();
	if (err || sum != (float)rondo_comm_size(comm)) {
		fprintf(stderr, "rondo: sum %g: %s\n", sum, rondo_last_error());
		return 1;
	}
	return moments_append(&moments, argv[1]) && rondo_comm_destroy(comm) == 0 ? 0 : 1;
}
