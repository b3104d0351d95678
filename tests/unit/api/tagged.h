/* Tagged messages for tests: whole ones, and ones that are begun and ended. */
#ifndef TAGGED_H
#define TAGGED_H

#include <criterion/criterion.h>

#include "world.h"

#define WAIT_MS 20000

static inline int begin_send(
	rondo_comm *comm, const void *data, size_t size, int peer, int tag, rondo_request **request)
{
	int err = rondo_send_tagged(comm, data, size, peer, tag, request);

	return err ? err : rondo_request_start(*request, NULL, NULL);
}

static inline int begin_receive(
	rondo_comm *comm, void *data, size_t size, int peer, int tag, rondo_request **request)
{
	int err = rondo_recv_tagged(comm, data, size, peer, tag, request);

	return err ? err : rondo_request_start(*request, NULL, NULL);
}

static inline int end(rondo_request *request)
{
	int err = rondo_request_wait(request, WAIT_MS);

	rondo_request_destroy(request);
	return err;
}

static inline int send_one(rondo_comm *comm, const void *data, size_t size, int peer, int tag)
{
	rondo_request *request;
	int err = begin_send(comm, data, size, peer, tag, &request);

	return err ? err : end(request);
}

static inline int receive_one(rondo_comm *comm, void *data, size_t size, int peer, int tag)
{
	rondo_request *request;
	int err = begin_receive(comm, data, size, peer, tag, &request);

	return err ? err : end(request);
}

/* Runs body over shm, tcp and both, among processes and threads; asserts that no rank fails. */
static inline void on_all_ways(int size, int (*body)(struct rank_env *env))
{
	if (!ONLY_THREADS) {
		world_try(size, "shm", body);
		world_try(size, "tcp", body);
		if (size > 2)
			world_try(size, "mixed", body);
	}
	for (int i = 0; i < 2; i++) {
		struct world world = {
			.size = size, .transport = i ? "tcp" : "shm", .threads = true
		};

		cr_assert_eq(world_run(&world, body, NULL, NULL), 0);
	}
}

#endif
