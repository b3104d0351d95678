/* ctest label: threads */
/* Requests: groups of calls that are prepared once, and started any number of times. */
#include <criterion/criterion.h>
#include <pthread.h>
#include <sched.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "ends.h"
#include "world.h"

#define COUNT 3001
#define WAIT_MS 20000

static int prepare_sum(rondo_comm *comm, int32_t *values, size_t count, rondo_request **request)
{
	int err = rondo_group_start();

	if (!err)
		err = rondo_all_reduce(comm, values, values, count, RONDO_I32, RONDO_SUM, NULL);
	return err ? err : rondo_group_prepare(request);
}

/* Sum of rank + base over all ranks. */
static int sum_of(const struct rank_env *env, int base)
{
	return env->size * (env->size - 1) / 2 + env->size * base;
}

/* ---- Starting again ------------------------------------------------------------------------- */

static int starts_again(struct rank_env *env)
{
	static int32_t values[COUNT];
	rondo_request *request;

	TRY(prepare_sum(env->comm, values, COUNT, &request));
	TRY(rondo_request_wait(request, -1)); /* it was not started */
	for (int round = 0; round < 50; round++) {
		for (int i = 0; i < COUNT; i++)
			values[i] = env->rank + round + i;
		TRY(rondo_request_start(request, NULL, NULL));
		TRY(rondo_request_wait(request, -1));
		for (int i = 0; i < COUNT; i++)
			if (values[i] != sum_of(env, round + i))
				return world_report(env, "round %d: %d", round, values[i]);
		/* Other ranks may make the call in another way. */
		if (env->rank == 0)
			TRY(rondo_request_start(request, NULL, NULL));
		else
			TRY(rondo_all_reduce(
				env->comm, values, values, COUNT, RONDO_I32, RONDO_SUM, NULL));
		TRY(rondo_request_wait(request, WAIT_MS));
		TRY(rondo_request_test(request));
		if (values[2] != env->size * sum_of(env, round + 2))
			return world_report(env, "round %d again: %d", round, values[2]);
	}
	rondo_request_destroy(request);
	rondo_request_destroy(NULL);
	return 0;
}

Test(requests, start_again_with_what_the_buffers_have_by_then, .timeout = 60)
{
	world_try(1, NULL, starts_again);
	world_try(2, "shm", starts_again);
	world_try(3, "tcp", starts_again);
	world_try(4, "mixed", starts_again);
}

/* Each alternates with others of its collective, and so has a plan of its own. */
static int alternate(struct rank_env *env)
{
	enum { REQUESTS = 5 };
	static const size_t counts[REQUESTS] = { 1, 40, 1000, 20000, 100000 };
	static int32_t values[REQUESTS][100000];
	rondo_request *requests[REQUESTS];

	for (int i = 0; i < REQUESTS; i++)
		TRY(prepare_sum(env->comm, values[i], counts[i], &requests[i]));
	for (int round = 0; round < 20; round++) {
		for (int i = 0; i < REQUESTS; i++) {
			for (size_t k = 0; k < counts[i]; k++)
				values[i][k] = env->rank + round + (int)k;
			TRY(rondo_request_start(requests[i], NULL, NULL));
		}
		/* In another order than they were started in. */
		for (int i = REQUESTS - 1; i >= 0; i--)
			TRY(rondo_request_wait(requests[(i + round) % REQUESTS], -1));
		for (int i = 0; i < REQUESTS; i++)
			for (size_t k = 0; k < counts[i]; k++)
				if (values[i][k] != sum_of(env, round + (int)k))
					return world_report(env, "request %d", i);
	}
	for (int i = 0; i < REQUESTS; i++)
		rondo_request_destroy(requests[i]);
	return 0;
}

Test(requests, go_side_by_side, .timeout = 60)
{
	world_try(2, "shm", alternate);
	world_try(3, "mixed", alternate);
}

/* ---- Calls of all kinds --------------------------------------------------------------------- */

static void subtract(
	void *into, const void *a, const void *b, size_t count, rondo_type type, void *argument)
{
	(void)type, (void)argument;
	for (size_t i = 0; i < count; i++)
		((int32_t *)into)[i] = ((const int32_t *)a)[i] - ((const int32_t *)b)[i];
}

static int calls_of_all_kinds(struct rank_env *env)
{
	int right = (env->rank + 1) % env->size, left = (env->rank + env->size - 1) % env->size;
	int32_t mine, got, self, difference, all[8];
	float weighted, factor = (float)env->rank;
	size_t counts[8];
	rondo_op minus, times;
	rondo_request *request;

	for (int i = 0; i < env->size; i++)
		counts[i] = 1;
	TRY(rondo_op_create(env->comm, &minus, subtract, 0, NULL));
	TRY(rondo_op_create_premul(env->comm, &times, &factor, RONDO_F32));
	TRY(rondo_group_start());
	TRY(rondo_send(env->comm, &mine, 1, RONDO_I32, right, NULL));
	TRY(rondo_recv(env->comm, &got, 1, RONDO_I32, left, NULL));
	TRY(rondo_send(env->comm, &mine, 1, RONDO_I32, env->rank, NULL));
	TRY(rondo_recv(env->comm, &self, 1, RONDO_I32, env->rank, NULL));
	TRY(rondo_all_gather_v(env->comm, &mine, all, counts, NULL, RONDO_I32, NULL));
	TRY(rondo_all_reduce(env->comm, &mine, &difference, 1, RONDO_I32, minus, NULL));
	TRY(rondo_all_reduce(env->comm, &weighted, &weighted, 1, RONDO_F32, times, NULL));
	TRY(rondo_group_prepare(&request));
	TRY(rondo_op_destroy(env->comm, minus));
	for (int round = 0; round < 10; round++) {
		int32_t rest = round;
		float sum = 0;

		mine = env->rank + round;
		weighted = 2;
		got = self = difference = -1;
		for (int i = 0; i < env->size; i++) {
			all[i] = -1;
			rest -= i > 0 ? i + round : 0;
			sum += 2 * (float)i;
		}
		TRY(rondo_request_start(request, NULL, NULL));
		TRY(rondo_request_wait(request, -1));
		if (got != left + round || self != mine || difference != rest || weighted != sum)
			return world_report(env, "round %d: %d, %d, %d, %g", round, got, self,
				difference, weighted);
		for (int i = 0; i < env->size; i++)
			if (all[i] != i + round)
				return world_report(
					env, "round %d: block %d is %d", round, i, all[i]);
	}
	rondo_request_destroy(request);
	return 0;
}

Test(requests, have_calls_of_all_kinds, .timeout = 60)
{
	world_try(2, "shm", calls_of_all_kinds);
	world_try(4, "mixed", calls_of_all_kinds);
}

/* ---- Ends ----------------------------------------------------------------------------------- */

/* A worker runs what nobody waits for: also after many that were waited for at once. */
static int nobody_waits(struct rank_env *env)
{
	struct end end = END;
	int32_t value = env->rank;
	rondo_request *request;
	int status;

	TRY(prepare_sum(env->comm, &value, 1, &request));
	for (int round = 0; round < 40; round++) {
		value = env->rank + round;
		TRY(rondo_request_start(request, note_end, &end));
		if (round % 10 != 9)
			TRY(rondo_request_wait(request, -1));
		if (!await_ends(&end, round + 1))
			return world_report(env, "round %d did not end", round);
		/* It was called before the request was seen to be done. */
		while ((status = rondo_request_test(request)) == RONDO_PENDING)
			sched_yield();
		TRY(status);
		if (value != sum_of(env, round) || end.error || end.times != round + 1)
			return world_report(env, "round %d: %d, end %d", round, value, end.error);
	}
	/* Its end destroys it, and so does the program while it is under way. */
	end.destroyed = request;
	TRY(rondo_request_start(request, note_end, &end));
	if (!await_ends(&end, 41))
		return world_report(env, "the destroyed request did not end");
	end.destroyed = NULL;
	TRY(prepare_sum(env->comm, &value, 1, &request));
	TRY(rondo_request_start(request, note_end, &end));
	rondo_request_destroy(request);
	if (!await_ends(&end, 42))
		return world_report(env, "the request that was left did not end");
	/* The comm's destruction runs what is queued. */
	TRY(prepare_sum(env->comm, &value, 1, &request));
	for (int i = 0; i < 5; i++) {
		TRY(rondo_request_start(request, NULL, NULL));
		TRY(rondo_request_wait(request, -1));
	}
	value = env->rank;
	TRY(rondo_request_start(request, note_end, &end));
	TRY(world_leave(env));
	TRY(rondo_request_wait(request, 0));
	rondo_request_destroy(request);
	return value == sum_of(env, 0) ? 0 : world_report(env, "at the end: %d", value);
}

Test(requests, run_without_a_thread_that_waits, .timeout = 60)
{
	world_try(2, "shm", nobody_waits);
	world_try(4, "tcp", nobody_waits);
}

/* The end of a request starts another on the same comm. */
struct chain {
	rondo_request *next;
	struct end end; /* of that */
	int error;
};

static void start_next(void *argument, int error)
{
	struct chain *chain = argument;

	chain->error = error ? error : rondo_request_start(chain->next, note_end, &chain->end);
}

static int start_at_the_end(struct rank_env *env)
{
	struct chain chain = { .end = END };
	int32_t first = env->rank, second = env->rank;
	rondo_request *request;

	TRY(prepare_sum(env->comm, &first, 1, &request));
	TRY(prepare_sum(env->comm, &second, 1, &chain.next));
	for (int round = 0; round < 20; round++) {
		first = second = env->rank + round;
		TRY(rondo_request_start(request, start_next, &chain));
		/* In even rounds this thread runs the first; in odd ones no thread waits. */
		if (round % 2 == 0)
			TRY(rondo_request_wait(request, -1));
		if (!await_ends(&chain.end, round + 1))
			return world_report(env, "round %d did not end", round);
		/* The function that started the next may return later than that ends. */
		TRY(rondo_request_wait(request, -1));
		TRY(chain.error);
		TRY(rondo_request_wait(chain.next, -1));
		if (second != sum_of(env, round))
			return world_report(env, "round %d: %d", round, second);
	}
	rondo_request_destroy(request);
	rondo_request_destroy(chain.next);
	return 0;
}

Test(requests, are_started_where_others_end, .timeout = 60)
{
	world_try(2, "shm", start_at_the_end);
	world_try(3, "tcp", start_at_the_end);
}

/* Long enough for a worker to look at the queue in vain, and to sleep. */
#define LATE_MS 40

/* A thread waits for a request, of which the other ranks are late. A worker runs
   the one that it started behind that. */
static int leaves_the_rest(struct rank_env *env)
{
	int32_t values[2];
	rondo_request *requests[2];
	struct end end = END;

	for (int i = 0; i < 2; i++)
		TRY(prepare_sum(env->comm, &values[i], 1, &requests[i]));
	for (int round = 0; round < 10; round++) {
		int64_t began_ms = world_now_ms();

		values[0] = values[1] = env->rank + round;
		if (env->rank == 1 && round == 8)
			while (world_now_ms() < began_ms + LATE_MS)
				;
		TRY(rondo_request_start(requests[0], NULL, NULL));
		TRY(rondo_request_start(requests[1], note_end, &end));
		TRY(rondo_request_wait(requests[0], -1));
		if (round < 8)
			TRY(rondo_request_wait(requests[1], -1));
		if (!await_ends(&end, round + 1))
			return world_report(env, "round %d: the second did not end", round);
		TRY(rondo_request_wait(requests[1], -1));
		if (values[0] != sum_of(env, round) || values[1] != values[0])
			return world_report(env, "round %d: %d", round, values[1]);
	}
	rondo_request_destroy(requests[0]);
	rondo_request_destroy(requests[1]);
	return 0;
}

Test(requests, behind_one_that_is_waited_for_are_run, .timeout = 60)
{
	world_try(2, "shm", leaves_the_rest);
}

static int waits_with_bounds(struct rank_env *env)
{
	int32_t value = env->rank, token = 0;
	rondo_request *request;
	rondo_comm *other;
	int wrong = world_second_comm(env, &other);

	if (wrong)
		return wrong;
	TRY(prepare_sum(env->comm, &value, 1, &request));
	if (env->rank == 0) {
		TRY(rondo_request_start(request, NULL, NULL));
		/* The others wait for the token before they start. */
		for (int i = 0; i < 3; i++)
			if (rondo_request_wait(request, i) != RONDO_PENDING)
				return world_report(env, "a call ended alone");
		if (rondo_request_start(request, NULL, NULL) != RONDO_INVALID)
			return world_report(env, "it was started twice");
	}
	TRY(rondo_broadcast(other, &token, &token, 1, RONDO_I32, 0, NULL));
	if (env->rank > 0)
		TRY(rondo_request_start(request, NULL, NULL));
	while (rondo_request_wait(request, 5) == RONDO_PENDING)
		;
	TRY(rondo_request_test(request));
	rondo_request_destroy(request);
	TRY(rondo_comm_destroy(other));
	return value == sum_of(env, 0) ? 0 : world_report(env, "%d", value);
}

Test(requests, are_waited_for_with_a_bound, .timeout = 60)
{
	world_try(2, "shm", waits_with_bounds);
	world_try(3, "tcp", waits_with_bounds);
}

/* ---- Failures ------------------------------------------------------------------------------- */

/* Each of two comms has a request. That of the comm that fails keeps its error; the other ends. */
static int failures(struct rank_env *env)
{
	int32_t values[3] = { env->rank, env->rank, env->rank };
	struct end ends[2] = { END, END };
	rondo_request *failing, *behind, *healthy;
	rondo_comm *other;
	int wrong = world_second_comm(env, &other);

	if (wrong)
		return wrong;
	TRY(prepare_sum(env->comm, &values[0], 1, &failing));
	TRY(prepare_sum(env->comm, &values[1], 1, &behind));
	TRY(prepare_sum(other, &values[2], 1, &healthy));
	if (env->rank > 0) {
		TRY(rondo_request_start(failing, note_end, &ends[0]));
		TRY(rondo_request_start(behind, note_end, &ends[1]));
	} else {
		TRY(rondo_comm_revoke(env->comm, "enough"));
		TRY(rondo_request_start(failing, note_end, &ends[0]));
		TRY(rondo_request_start(behind, note_end, &ends[1]));
	}
	TRY(rondo_request_start(healthy, NULL, NULL));
	TRY(rondo_request_wait(healthy, -1));
	EXPECT_ERROR(rondo_request_wait(behind, -1), RONDO_REVOKED, "rank 0");
	EXPECT_ERROR(rondo_request_wait(failing, WAIT_MS), RONDO_REVOKED, "enough");
	EXPECT_ERROR(rondo_request_test(failing), RONDO_REVOKED, "enough");
	for (int i = 0; i < 2; i++)
		if (!await_ends(&ends[i], 1) || ends[i].error != RONDO_REVOKED)
			return world_report(env, "end %d: error %d", i, ends[i].error);
	/* They outlive their comm. */
	TRY(world_leave(env));
	EXPECT_ERROR(rondo_request_test(failing), RONDO_REVOKED, "enough");
	rondo_request_destroy(failing);
	rondo_request_destroy(behind);
	rondo_request_destroy(healthy);
	TRY(rondo_comm_destroy(other));
	return values[2] == sum_of(env, 0) ? 0 : world_report(env, "%d", values[2]);
}

Test(requests, keep_their_failures, .timeout = 60)
{
	world_try(2, "shm", failures);
	world_try(3, "tcp", failures);
}

static int refusals(struct rank_env *env)
{
	int32_t values[2] = { 1, 2 };
	rondo_request *request = (rondo_request *)env;
	rondo_stream *stream;
	rondo_comm *other;
	int wrong = world_second_comm(env, &other);

	if (wrong)
		return wrong;
	EXPECT_ERROR(rondo_group_prepare(&request), RONDO_INVALID, "without rondo_group_start");
	if (request)
		return world_report(env, "an error left a request");
	TRY(rondo_group_start());
	EXPECT_ERROR(rondo_group_prepare(&request), RONDO_INVALID, "the group has no call");
	TRY(rondo_stream_create(&stream));
	TRY(rondo_group_start());
	TRY(rondo_all_reduce(env->comm, values, values, 1, RONDO_I32, RONDO_SUM, stream));
	EXPECT_ERROR(rondo_group_prepare(&request), RONDO_INVALID, "on no stream");
	rondo_stream_destroy(stream);
	TRY(rondo_group_start());
	TRY(rondo_all_reduce(env->comm, values, values, 1, RONDO_I32, RONDO_SUM, NULL));
	TRY(rondo_all_reduce(other, values, values, 1, RONDO_I32, RONDO_SUM, NULL));
	EXPECT_ERROR(rondo_group_prepare(&request), RONDO_INVALID, "on one comm");
	TRY(rondo_group_start());
	TRY(rondo_group_start());
	TRY(rondo_all_reduce(env->comm, values, values, 1, RONDO_I32, RONDO_SUM, NULL));
	EXPECT_ERROR(rondo_group_prepare(&request), RONDO_INVALID, "in another group");
	EXPECT_ERROR(rondo_group_end(), RONDO_INVALID, "in another group");
	TRY(rondo_group_start());
	TRY(rondo_send(env->comm, values, 1, RONDO_I32, env->rank, NULL));
	EXPECT_ERROR(rondo_group_prepare(&request), RONDO_INVALID, "no counterpart");
	TRY(rondo_group_start());
	EXPECT_ERROR(rondo_all_reduce(env->comm, values, NULL, 1, RONDO_I32, RONDO_SUM, NULL),
		RONDO_INVALID, "NULL");
	EXPECT_ERROR(rondo_group_prepare(&request), RONDO_INVALID, "recv is NULL");
	TRY(rondo_group_start());
	TRY(rondo_all_reduce(env->comm, values, values, 1, RONDO_I32, RONDO_SUM, NULL));
	EXPECT_ERROR(rondo_group_prepare(NULL), RONDO_INVALID, "request is NULL");
	EXPECT_ERROR(rondo_request_start(NULL, NULL, NULL), RONDO_INVALID, "request is NULL");
	EXPECT_ERROR(rondo_request_test(NULL), RONDO_INVALID, "request is NULL");
	EXPECT_ERROR(rondo_request_wait(NULL, 1), RONDO_INVALID, "request is NULL");
	TRY(prepare_sum(env->comm, values, 2, &request));
	TRY(rondo_group_start());
	EXPECT_ERROR(rondo_request_start(request, NULL, NULL), RONDO_INVALID, "end the group");
	TRY(rondo_group_end());
	TRY(rondo_comm_finalize(other));
	rondo_request_destroy(request);
	TRY(rondo_comm_destroy(other));
	return world_sum_one(env);
}

Test(requests, refuse_misuse_with_the_reason, .timeout = 60)
{
	world_try(2, "shm", refusals);
}

/* ---- Processes ------------------------------------------------------------------------------ */

/* The parent has a worker. A child uses none of it, and makes its own. */
static int forks(struct rank_env *env)
{
	int32_t value = env->rank, alone = 7;
	rondo_request *request, *own;
	struct end end = END;
	int status = -1;

	TRY(prepare_sum(env->comm, &value, 1, &request));
	TRY(rondo_request_start(request, note_end, &end));
	if (!await_ends(&end, 1))
		return world_report(env, "no worker ran it");

	pid_t child = fork();

	if (child == 0) {
		struct rondo_config config = RONDO_CONFIG_INIT;
		rondo_comm *comm;

		if (rondo_request_start(request, NULL, NULL) != RONDO_INVALID ||
			rondo_request_wait(request, 1) != RONDO_INVALID)
			_exit(1);
		rondo_request_destroy(request);
		rondo_comm_destroy(env->comm);
		config.rank = 0;
		config.size = 1;
		if (rondo_comm_create(&comm, &config) || prepare_sum(comm, &alone, 1, &own))
			_exit(2);
		end.times = 0;
		if (rondo_request_start(own, note_end, &end) || !await_ends(&end, 1))
			_exit(3);
		rondo_request_destroy(own);
		_exit(rondo_comm_destroy(comm) ? 4 : 0);
	}
	if (child < 0 || waitpid(child, &status, 0) != child || status != 0)
		return world_report(env, "the child ended with status %d", status);
	value = env->rank;
	TRY(rondo_request_start(request, NULL, NULL));
	TRY(rondo_request_wait(request, -1));
	rondo_request_destroy(request);
	return value == sum_of(env, 0) ? 0 : world_report(env, "%d", value);
}

Test(requests, belong_to_the_process_that_made_them, .timeout = 60)
{
	if (!ONLY_THREADS)
		world_try(2, "shm", forks);
}
