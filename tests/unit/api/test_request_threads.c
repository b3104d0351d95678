/* ctest label: threads */
/* Requests of several comms, each in a thread of its own. */
#include <criterion/criterion.h>
#include <pthread.h>
#include <sched.h>

#include "tagged.h"
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

enum { COMMS = 500 };

/* A comm's first two starts, of which a message's function makes one, in another thread. */
struct firsts {
	pthread_barrier_t start;
	rondo_request *sums[2], *message[2]; /* a receive, and its send */
	int32_t values[4];
	int error;
	int ended[2];
};

static void record_end(void *argument, int error)
{
	*(int *)argument = error ? error : 1;
}

/* Another thread may be in its start. */
static int start_sum(struct firsts *firsts, int which)
{
	int err;

	do
		err = rondo_request_start(firsts->sums[which], record_end, &firsts->ended[which]);
	while (err == RONDO_INVALID);
	return err;
}

static void start_second(void *argument, int error)
{
	struct firsts *firsts = argument;

	firsts->error = error ? error : start_sum(firsts, 1);
}

static void *send_message(void *argument)
{
	struct firsts *firsts = argument;

	pthread_barrier_wait(&firsts->start);
	rondo_request_start(firsts->message[1], NULL, NULL);
	return NULL;
}

static int start_both(struct rank_env *env)
{
	struct firsts firsts;
	pthread_t thread;

	pthread_barrier_init(&firsts.start, NULL, 2);
	for (int i = 0; i < COMMS; i++) {
		int32_t *values = firsts.values;
		rondo_comm *comm;

		firsts.ended[0] = firsts.ended[1] = 0;
		TRY(rondo_comm_duplicate(env->comm, &comm));
		TRY(prepare_sum(comm, &values[0], &firsts.sums[0]));
		TRY(prepare_sum(comm, &values[1], &firsts.sums[1]));
		TRY(rondo_recv_tagged(comm, &values[2], 4, 0, 0, &firsts.message[0]));
		TRY(rondo_send_tagged(comm, &values[3], 4, 0, 0, &firsts.message[1]));
		TRY(rondo_request_start(firsts.message[0], start_second, &firsts));
		if (pthread_create(&thread, NULL, send_message, &firsts))
			return world_report(env, "no thread");
		pthread_barrier_wait(&firsts.start);
		TRY(start_sum(&firsts, 0));
		pthread_join(thread, NULL);
		TRY(rondo_comm_destroy(comm));
		if (firsts.error || firsts.ended[0] != 1 || firsts.ended[1] != 1)
			return world_report(env, "comm %d: error %d, ends %d and %d", i,
				firsts.error, firsts.ended[0], firsts.ended[1]);
		for (int at = 0; at < 2; at++) {
			rondo_request_destroy(firsts.sums[at]);
			rondo_request_destroy(firsts.message[at]);
		}
	}
	pthread_barrier_destroy(&firsts.start);
	return 0;
}

Test(request_threads, may_start_the_first_two_at_once, .timeout = 120)
{
	WORLD_TRY(start_both, .size = 1, .threads = true);
}

/* A thread destroys requests that are under way, while another destroys their comm. */

enum { REQUESTS = 6, ENDS = 40 };

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
	for (int i = 0; i < ENDS; i++) {
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
