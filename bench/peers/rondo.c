/*
 * Rondo, over its public header. PEERS_RANKS is the number of ranks to fork; without it this is a
 * rank that a launcher started. With PEERS_REGISTERED set the buffers come from rondo_mem_alloc().
 */
#include <rondo.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "measure.h"

struct arguments {
	int count;
	char **values;
};

static rondo_comm *comm;

static void must(int err, const char *what)
{
	if (!err)
		return;
	fprintf(stderr, "%s: %s\n", what, rondo_last_error());
	exit(1);
}

static void barrier(void)
{
	must(rondo_barrier(comm, NULL), "barrier");
}

static void greatest(double *value)
{
	must(rondo_all_reduce(comm, value, value, 1, RONDO_F64, RONDO_MAX, NULL), "all_reduce");
}

static void run(enum peers_collective collective, const float *send, float *recv, size_t count)
{
	int err;

	switch (collective) {
	case PEERS_ALL_REDUCE:
		err = rondo_all_reduce(comm, send, recv, count, RONDO_F32, RONDO_SUM, NULL);
		break;
	case PEERS_REDUCE_SCATTER:
		err = rondo_reduce_scatter(comm, send, recv, count, RONDO_F32, RONDO_SUM, NULL);
		break;
	case PEERS_ALL_GATHER:
		err = rondo_all_gather(comm, send, recv, count, RONDO_F32, NULL);
		break;
	case PEERS_BROADCAST:
		err = rondo_broadcast(comm, recv, recv, count, RONDO_F32, 0, NULL);
		break;
	default:
		err = rondo_all_to_all(comm, send, recv, count, RONDO_F32, NULL);
	}
	if (err)
		must(err, "run");
}

static void *allocate_registered(size_t size)
{
	void *memory;

	must(rondo_mem_alloc(&memory, size), "rondo_mem_alloc");
	memset(memory, 1, size);
	return memory;
}

static void release_registered(void *memory)
{
	must(rondo_mem_free(memory), "rondo_mem_free");
}

static int live(void *argument)
{
	struct arguments *arguments = argument;
	struct peers_library library = { .barrier = barrier, .greatest = greatest, .run = run };

	if (getenv("PEERS_REGISTERED")) {
		library.allocate = allocate_registered;
		library.release = release_registered;
	}
	must(rondo_comm_create(&comm, NULL), "create");
	library.rank = rondo_comm_rank(comm);
	library.size = rondo_comm_size(comm);
	int status = peers_measure(&library, arguments->count, arguments->values);
	must(rondo_comm_destroy(comm), "destroy");
	return status;
}

int main(int argc, char **argv)
{
	struct arguments arguments = { argc, argv };
	const char *ranks = getenv("PEERS_RANKS");
	int status = ranks ? rondo_spawn(atoi(ranks), live, &arguments) : live(&arguments);

	if (status < 0)
		must(status, "spawn");
	return status;
}
