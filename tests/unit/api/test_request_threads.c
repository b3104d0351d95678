/* ctest label: threads */
/* Requests of several comms, each in a thread of its own. */
#include <criterion/criterion.h>
#include <pthread.h>
#include <sched.h>

#include "world.h"

#define WAIT_MS 20000

static int prepare_sum(rondo_comm *comm, int32_t *value, rondo_request **request)
{
	int err = rondo_group_start();

	if (!err)
		err = rondo_all_reduce(comm, value, value, 1, RONDO_I32, RONDO_SUM, NULL);
	return err ? err : rondo_group_prepare(request);
}

/* Sum of rank + base over all ranks. */
static int sum_of(const struct rank_env *env, int base)
{
	return env->size * (env->size - 1) / 2 + env->size * base;
}

enum { THREADS = 4, ROUNDS = 200 };

struct user {
	rondo_comm *comm;
	const struct rank_env *env;
	const char *wrong;
};

/* Several under way at once, polled and waited for. */
static void *use(void *argument)
{
	struct user *user = argument;
	int32_t values[3] = { 0 };
	rondo_request *requests[3];

	for (int i = 0; i < 3; i++)
		if (prepare_sum(user->comm, &values[i], &requests[i]))
			user->wrong = "prepare";
	for (int round = 0; round < ROUNDS && !user->wrong; round++) {
		for (int i = 0; i < 3; i++) {
			values[i] = user->env->rank + round + i;
			if (rondo_request_start(requests[i], NULL, NULL))
				user->wrong = "start";
		}
		if (round % 3 == 0)
			while (rondo_request_test(requests[1]) == RONDO_PENDING)
				sched_yield();
		for (int i = 0; i < 3; i++)
			if (rondo_request_wait(requests[i], round % 2 ? -1 : WAIT_MS) ||
				values[i] != sum_of(user->env, round + i))
				user->wrong = "wait";
	}
	for (int i = 0; i < 3; i++)
		rondo_request_destroy(requests[i]);
	return NULL;
}

static int threads(struct rank_env *env)
{
	pthread_t ids[THREADS];
	struct user users[THREADS];

	for (int i = 0; i < THREADS; i++) {
		users[i] = (struct user){ .env = env };
		TRY(rondo_comm_duplicate(env->comm, &users[i].comm));
	}
	for (int i = 0; i < THREADS; i++)
		if (pthread_create(&ids[i], NULL, use, &users[i]))
			return world_report(env, "no thread");
	for (int i = 0; i < THREADS; i++) {
		pthread_join(ids[i], NULL);
		if (users[i].wrong)
			return world_report(
				env, "thread %d: %s: %s", i, users[i].wrong, rondo_last_error());
		TRY(rondo_comm_destroy(users[i].comm));
	}
	return 0;
}

Test(request_threads, of_several_comms_go_in_several_threads, .timeout = 120)
{
	world_try(2, "shm", threads);
	world_try(3, "mixed", threads);
}
