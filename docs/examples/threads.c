/*
 * Threads as ranks: each thread of this process has a comm of its own. Alone, the process is the
 * whole job. Started by rondo-run, the threads of all processes are the job.
 *
 *     ./threads
 *     rondo-run --nproc-per-node 2 ./threads
 */
#define _POSIX_C_SOURCE 200809L
#include <arpa/inet.h>
#include <netinet/in.h>
#include <pthread.h>
#include <rondo.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

#define THREADS 3

struct rank {
	struct rondo_config config;
	pthread_t thread;
	int failed;
};

/* Sums the ranks from 1. Every call is as in a process: the comm belongs to this thread. */
static int run(const struct rondo_config *config)
{
	rondo_comm *comm;
	int sum = config->rank + 1, expected = config->size * (config->size + 1) / 2;
	int err = rondo_comm_create(&comm, config);
	int left;

	if (!err)
		err = rondo_all_reduce(comm, &sum, &sum, 1, RONDO_I32, RONDO_SUM, NULL);
	if (!err)
		printf("rank %d of %d: the sum is %d\n", config->rank, config->size, sum);
	else /* rondo_last_error() is this thread's */
		fprintf(stderr, "%s: %s\n", rondo_error_name(err), rondo_last_error());
	left = rondo_comm_destroy(comm); /* NULL where it was not created */
	if (!err && left)
		fprintf(stderr, "%s: %s\n", rondo_error_name(left), rondo_last_error());
	return err || left || sum != expected;
}

static void *run_thread(void *argument)
{
	struct rank *rank = argument;

	rank->failed = run(&rank->config);
	return NULL;
}

/* A socket that listens at a port of the kernel's choice, for rank 0 to take over; -1: none. */
static int listen_here(int *port)
{
	struct sockaddr_in address = { .sin_family = AF_INET };
	socklen_t size = sizeof(address);
	int fd = socket(AF_INET, SOCK_STREAM, 0);

	address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
	if (fd < 0 || bind(fd, (struct sockaddr *)&address, size) || listen(fd, SOMAXCONN) ||
		getsockname(fd, (struct sockaddr *)&address, &size)) {
		perror("cannot listen");
		return -1;
	}
	*port = ntohs(address.sin_port);
	return fd;
}

int main(void)
{
	struct rank ranks[THREADS];
	struct rondo_config config = RONDO_CONFIG_INIT; /* the launcher's address and port */
	int process = 0, processes = 1, failed = 0;

	if (getenv("RANK") && getenv("WORLD_SIZE")) {
		process = atoi(getenv("RANK"));
		processes = atoi(getenv("WORLD_SIZE"));
	} else {
		config.address = "127.0.0.1";
		config.rendezvous_fd = listen_here(&config.port);
		if (config.rendezvous_fd < 0)
			return 1;
	}
	config.size = processes * THREADS;
	for (int t = 0; t < THREADS; t++) {
		ranks[t].config = config;
		ranks[t].config.rank = process * THREADS + t;
		if (ranks[t].config.rank != 0)
			ranks[t].config.rendezvous_fd = -1;
		if (pthread_create(&ranks[t].thread, NULL, run_thread, &ranks[t])) {
			fprintf(stderr, "cannot start a thread\n");
			return 1; /* and with it the process: the other ranks notice */
		}
	}
	for (int t = 0; t < THREADS; t++) {
		pthread_join(ranks[t].thread, NULL);
		failed |= ranks[t].failed;
	}
	return failed;
}
