/* ctest label: threads */
/* A thread destroys requests that are under way, while another destroys their comm. */
#include <criterion/criterion.h>
#include <pthread.h>

#include "tagged.h"

enum { REQUESTS = 6, ROUNDS = 40 };

struct round {
	pthread_barrier_t start;
	rondo_request *requests[2 * REQUESTS];
	int32_t values[2 * REQUESTS];
};

static void *destroy_requests(void *argument)
{
	struct round *round = argument;

	pthread_barrier_wait(&round->start);
	for (int i = 0; i < 2 * REQUESTS; i++)
		rondo_request_destroy(round->requests[i]);
	return NULL;
}

/* Calls, and receives that no message matches. */
static int start_all(rondo_comm *comm, struct round *round)
{
	for (int i = 0; i < 2 * REQUESTS; i += 2) {
		int32_t *value = &round->values[i];
		int err = rondo_group_start();

		err = err ? err
			  : rondo_all_reduce(comm, value, value, 1, RONDO_I32, RONDO_SUM, NULL);
		err = err ? err : rondo_group_prepare(&round->requests[i]);
		err = err ? err : rondo_request_start(round->requests[i], NULL, NULL);
		err = err ? err
			  : begin_receive(comm, value + 1, 4, RONDO_ANY_SOURCE, i,
				    &round->requests[i + 1]);
		if (err)
			return err;
	}
	return 0;
}

static int destroy_both(struct rank_env *env)
{
	struct round round;

	pthread_barrier_init(&round.start, NULL, 2);
	for (int i = 0; i < ROUNDS; i++) {
		pthread_t thread;
		rondo_comm *comm;

		TRY(rondo_comm_duplicate(env->comm, &comm));
		for (int at = 0; at < 2 * REQUESTS; at++)
			round.values[at] = env->rank + at;
		TRY(start_all(comm, &round));
		pthread_create(&thread, NULL, destroy_requests, &round);
		pthread_barrier_wait(&round.start);
		TRY(rondo_comm_destroy(comm));
		pthread_join(thread, NULL);
		for (int at = 0; at < 2 * REQUESTS; at += 2)
			if (round.values[at] != 1 + 2 * at)
				return world_report(env, "round %d: %d", i, round.values[at]);
	}
	pthread_barrier_destroy(&round.start);
	return 0;
}

Test(request_destroy, goes_beside_that_of_the_comm, .timeout = 60)
{
	on_all_ways(2, destroy_both);
}
