/*
 * Inside an MPI program: Rondo's ranks are those of MPI_COMM_WORLD. mpirun sets no RANK or
 * MASTER_ADDR, so MPI brings ranks together: rank 0 listens at a port of the kernel's choice, and
 * broadcasts its address.
 *
 *     mpicc mpi.c $(pkg-config --cflags --libs rondo) -o mpi
 *     mpirun -n 4 ./mpi
 */
#define _POSIX_C_SOURCE 200809L
#include <arpa/inet.h>
#include <mpi.h>
#include <netinet/in.h>
#include <rondo.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

struct meeting {
	char host[256];
	int port;
};

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

/* A socket that listens on all interfaces, for rank 0 to take over. */
static int listen_somewhere(int *port)
{
	struct sockaddr_in address = { .sin_family = AF_INET };
	socklen_t size = sizeof(address);
	int fd = socket(AF_INET, SOCK_STREAM, 0);

	address.sin_addr.s_addr = htonl(INADDR_ANY);
	if (fd < 0 || bind(fd, (struct sockaddr *)&address, size) || listen(fd, SOMAXCONN) ||
		getsockname(fd, (struct sockaddr *)&address, &size)) {
		perror("cannot listen");
		MPI_Abort(MPI_COMM_WORLD, 1);
	}
	*port = ntohs(address.sin_port);
	return fd;
}

/* A comm of the ranks of MPI_COMM_WORLD. */
static rondo_comm *create_comm(void)
{
	struct rondo_config config = RONDO_CONFIG_INIT;
	struct meeting meeting = { .host = "127.0.0.1" };
	rondo_comm *comm;
	MPI_Comm host;
	int host_size;

	MPI_Comm_rank(MPI_COMM_WORLD, &config.rank);
	MPI_Comm_size(MPI_COMM_WORLD, &config.size);
	/* Ranks on this host; where they are not all, rank 0 gives its host's name. */
	MPI_Comm_split_type(MPI_COMM_WORLD, MPI_COMM_TYPE_SHARED, 0, MPI_INFO_NULL, &host);
	MPI_Comm_size(host, &host_size);
	MPI_Comm_free(&host);
	if (config.rank == 0) {
		config.rendezvous_fd = listen_somewhere(&meeting.port);
		if (host_size < config.size && gethostname(meeting.host, sizeof(meeting.host) - 1))
			fail("gethostname", "this host has no name");
	}
	MPI_Bcast(&meeting, sizeof(meeting), MPI_BYTE, 0, MPI_COMM_WORLD);
	config.address = meeting.host;
	config.port = meeting.port;
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
	comm = create_comm();
	rank = rondo_comm_rank(comm);
	sum = expected = (float)rank + 1;
	check(rondo_all_reduce(comm, &sum, &sum, 1, RONDO_F32, RONDO_SUM, NULL));
	MPI_Allreduce(MPI_IN_PLACE, &expected, 1, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD);
	printf("rank %d of %d: Rondo's sum is %g, MPI's is %g\n", rank, size, sum, expected);
	check(rondo_comm_destroy(comm));
	MPI_Finalize();
	return sum == expected ? 0 : 1;
}
