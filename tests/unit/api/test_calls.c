/* ctest label: threads */
/* Calls that are refused, of two threads, of stream functions, and one after the other. */
#include <criterion/criterion.h>
#include <poll.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "world.h"

static void run_soon(int (*body)(struct rank_env *env))
{
	WORLD_TRY(body, .size = 2, .transport = "shm", .limit_ms = 30000);
}

/* ---- After a call --------------------------------------------------------------------------- */

#define HEAVY (32 << 20)

/*
 * Ranks 2 and 1 of the chain return from the call, and make no other: the root gets all of it
 * nevertheless. They wait for the root's byte in the pipe.
 */
static int return_and_wait(struct rank_env *env)
{
	const int *pipe_fds = env->argument;
	char *bytes = calloc(1, HEAVY), word[2] = "ok";
	struct pollfd fd = { .fd = pipe_fds[0], .events = POLLIN };

	TRY(rondo_reduce(env->comm, bytes, bytes, HEAVY, RONDO_I8, RONDO_SUM, 0, NULL));
	free(bytes);
	if (env->rank == 0)
		return write(pipe_fds[1], word, 2) != 2;
	if (poll(&fd, 1, 10000) != 1)
		return world_report(env, "the root still waits for bytes of this rank's");
	return read(pipe_fds[0], word, 1) != 1;
}

Test(calls, leave_nothing_behind_that_only_another_call_would_send, .timeout = 60)
{
	struct world world = { .size = 3, .transport = "tcp" };
	int fds[2];

	cr_assert_eq(pipe(fds), 0);
	cr_assert_eq(world_run(&world, return_and_wait, fds, NULL), 0);
	close(fds[0]);
	close(fds[1]);
}

/* ---- Refusals ------------------------------------------------------------------------------ */

static int refusals(struct rank_env *env)
{
	rondo_comm *comm = env->comm;
	float in[8] = { 0 }, out[8];

	EXPECT_ERROR(rondo_all_reduce(NULL, in, out, 1, RONDO_F32, RONDO_SUM, NULL), RONDO_INVALID,
		"all_reduce: comm is NULL");
	EXPECT_ERROR(rondo_all_reduce(comm, NULL, out, 1, RONDO_F32, RONDO_SUM, NULL),
		RONDO_INVALID, "all_reduce: send is NULL");
	EXPECT_ERROR(rondo_all_gather(comm, in, NULL, 1, RONDO_F32, NULL), RONDO_INVALID,
		"all_gather: recv is NULL");
	EXPECT_ERROR(rondo_all_reduce(comm, in, out, 1, 77, RONDO_SUM, NULL), RONDO_INVALID,
		"77 is no type");
	EXPECT_ERROR(rondo_all_reduce(comm, in, out, 1, RONDO_F32, 99, NULL), RONDO_INVALID,
		"99 is no operation");
	EXPECT_ERROR(rondo_broadcast(comm, in, out, 1, RONDO_F32, 2, NULL), RONDO_INVALID,
		"rank 2 is not in 0..1");
	EXPECT_ERROR(rondo_broadcast(comm, in, out, 1, RONDO_F32, -1, NULL), RONDO_INVALID,
		"rank -1 is not in 0..1");
	EXPECT_ERROR(rondo_all_reduce(comm, in, out, SIZE_MAX / 8, RONDO_F32, RONDO_SUM, NULL),
		RONDO_INVALID, "too large");
	EXPECT_ERROR(rondo_all_reduce(comm, in, in + 1, 4, RONDO_F32, RONDO_SUM, NULL),
		RONDO_INVALID, "overlap");
	EXPECT_ERROR(
		rondo_send(comm, in, 1, RONDO_F32, env->rank, NULL), RONDO_INVALID, "in one group");
	EXPECT_ERROR(rondo_group_end(), RONDO_INVALID, "without rondo_group_start");
	EXPECT_ERROR(rondo_stream_synchronize(NULL), RONDO_INVALID, "stream is NULL");

	/* A call that is refused takes its whole group with it, and nothing has been sent. */
	TRY(rondo_group_start());
	TRY(rondo_send(comm, in, 1, RONDO_F32, 1 - env->rank, NULL));
	EXPECT_ERROR(rondo_recv(comm, NULL, 1, RONDO_F32, 1 - env->rank, NULL), RONDO_INVALID,
		"the buffer is NULL");
	EXPECT_ERROR(rondo_group_end(), RONDO_INVALID, "the buffer is NULL");
	TRY(rondo_group_start());
	TRY(rondo_send(comm, in, 1, RONDO_F32, env->rank, NULL));
	EXPECT_ERROR(rondo_group_end(), RONDO_INVALID, "no counterpart");
	TRY(rondo_barrier(comm, NULL));
	return 0;
}

Test(calls, that_make_no_sense_are_refused_and_harm_nothing, .timeout = 60)
{
	world_try(2, "shm", refusals);
}

/* ---- Two threads --------------------------------------------------------------------------- */

/* A second thread calls while the first runs a user operation. */
struct intrusion {
	rondo_comm *comm;
	sem_t inside, tried;
	bool met;
	int own, second; /* the errors of the operation itself, and of the second thread */
	char text[WORLD_TEXT];
};

static void add_and_meet(
	void *into, const void *a, const void *b, size_t count, rondo_type type, void *argument)
{
	struct intrusion *intrusion = argument;

	for (size_t i = 0; i < count; i++)
		((int32_t *)into)[i] = ((const int32_t *)a)[i] + ((const int32_t *)b)[i];
	if (intrusion->met || type != RONDO_I32)
		return;
	intrusion->met = true;
	intrusion->own = rondo_barrier(intrusion->comm, NULL);
	sem_post(&intrusion->inside);
	world_wait(&intrusion->tried);
}

static void *intrude(void *argument)
{
	struct intrusion *intrusion = argument;

	if (!world_wait(&intrusion->inside) || !intrusion->met)
		return NULL;
	intrusion->second = rondo_barrier(intrusion->comm, NULL);
	snprintf(intrusion->text, sizeof(intrusion->text), "%s", rondo_last_error());
	sem_post(&intrusion->tried);
	return NULL;
}

static int call_from_two_threads(struct rank_env *env)
{
	struct intrusion intrusion = { .comm = env->comm };
	pthread_t thread;
	int32_t sum = 1;
	rondo_op op;

	sem_init(&intrusion.inside, 0, 0);
	sem_init(&intrusion.tried, 0, 0);
	TRY(rondo_op_create(env->comm, &op, add_and_meet, 0, &intrusion));
	pthread_create(&thread, NULL, intrude, &intrusion);
	TRY(rondo_all_reduce(env->comm, &sum, &sum, 1, RONDO_I32, op, NULL));
	sem_post(&intrusion.inside);
	pthread_join(thread, NULL);
	/* The refused calls have harmed nothing. */
	TRY(rondo_barrier(env->comm, NULL));
	/* Either one rank combines, or both do. */
	if (!intrusion.met && env->rank == 0)
		return 0;
	if (!intrusion.met || intrusion.own != RONDO_INVALID || intrusion.second != RONDO_INVALID ||
		!strstr(intrusion.text, "all_reduce #1"))
		return world_report(env, "%d: %s, and %s: %s", intrusion.met,
			rondo_error_name(intrusion.own), rondo_error_name(intrusion.second),
			intrusion.text);
	return sum == 2 ? 0 : world_report(env, "the sum is %d", sum);
}

Test(calls, of_a_second_thread_are_refused_while_the_first_is_in_one, .timeout = 90)
{
	run_soon(call_from_two_threads);
}

/* A stream's function calls, while an earlier call of the comm is queued behind a function: the
   same one, or one on another stream that waits for it. */
struct knot {
	rondo_comm *comm;
	sem_t queued, called;
	int err;
	char text[WORLD_TEXT];
};

static void call_ahead(void *argument)
{
	struct knot *knot = argument;

	world_wait(&knot->queued);
	knot->err = rondo_barrier(knot->comm, NULL);
	snprintf(knot->text, sizeof(knot->text), "%s", rondo_last_error());
	sem_post(&knot->called);
}

static void await_call(void *argument)
{
	struct knot *knot = argument;

	world_wait(&knot->called);
}

static int tie(struct rank_env *env, struct knot *knot, rondo_stream **caller, rondo_stream **other)
{
	sem_init(&knot->queued, 0, 0);
	sem_init(&knot->called, 0, 0);
	knot->comm = env->comm;
	TRY(rondo_stream_create(caller));
	TRY(rondo_stream_create(other));
	TRY(rondo_stream_call(*caller, call_ahead, knot));
	TRY(rondo_stream_call(*other, await_call, knot));
	TRY(rondo_barrier(env->comm, *other));
	sem_post(&knot->queued);
	return 0;
}

static int untie(struct rank_env *env, const struct knot *knot, rondo_stream *caller,
	rondo_stream *other, int wanted, const char *words)
{
	TRY(rondo_stream_synchronize(caller));
	rondo_stream_synchronize(other);
	rondo_stream_destroy(caller);
	rondo_stream_destroy(other);
	if (knot->err != wanted || !strstr(knot->text, words))
		return world_report(env, "%s: %s", rondo_error_name(knot->err), knot->text);
	return 0;
}

static int abort_a_knot(struct rank_env *env)
{
	rondo_stream *caller, *other;
	struct knot knot;

	if (tie(env, &knot, &caller, &other))
		return 1;
	world_meet(env, env->size);
	TRY(rondo_comm_revoke(env->comm, "a knot"));
	return untie(env, &knot, caller, other, RONDO_REVOKED, "a knot");
}

Test(calls, that_wait_for_a_turn_that_never_comes_end_by_an_abort, .timeout = 90)
{
	run_soon(abort_a_knot);
}

static int outwait_a_knot(struct rank_env *env)
{
	rondo_stream *caller, *other;
	struct knot knot;

	if (tie(env, &knot, &caller, &other))
		return 1;
	return untie(env, &knot, caller, other, RONDO_TIMEOUT,
		"for the turn of barrier #2: the 1 call issued before it");
}

Test(calls, that_wait_for_a_turn_that_never_comes_end_by_the_timeout, .timeout = 90)
{
	WORLD_TRY(outwait_a_knot, .size = 2, .transport = "shm", .call_timeout_ms = 1000,
		.limit_ms = 30000);
}

static int wait_for_itself(struct rank_env *env)
{
	struct knot knot = { .comm = env->comm };
	rondo_stream *stream;

	sem_init(&knot.queued, 0, 0);
	sem_init(&knot.called, 0, 0);
	TRY(rondo_stream_create(&stream));
	TRY(rondo_stream_call(stream, call_ahead, &knot));
	TRY(rondo_barrier(env->comm, stream));
	sem_post(&knot.queued);
	rondo_stream_synchronize(stream);
	rondo_stream_destroy(stream);
	if (knot.err != RONDO_INVALID || !strstr(knot.text, "would wait for barrier #1"))
		return world_report(env, "%s: %s", rondo_error_name(knot.err), knot.text);
	EXPECT_ERROR(rondo_barrier(env->comm, NULL), RONDO_INVALID, "barrier #1");
	return 0;
}

Test(calls, of_a_stream_s_function_do_not_wait_for_calls_behind_it, .timeout = 90)
{
	run_soon(wait_for_itself);
}

/* ---- Groups -------------------------------------------------------------------------------- */

static int leave_within_a_group(struct rank_env *env)
{
	rondo_comm *comm = env->comm, *part;
	rondo_stream *stream;
	int32_t sum = 1;

	TRY(rondo_stream_create(&stream));
	TRY(rondo_group_start());
	TRY(rondo_all_reduce(comm, &sum, &sum, 1, RONDO_I32, RONDO_SUM, NULL));
	EXPECT_ERROR(rondo_comm_destroy(comm), RONDO_INVALID, "end the group first");
	EXPECT_ERROR(rondo_comm_finalize(comm), RONDO_INVALID, "end the group first");
	EXPECT_ERROR(rondo_comm_split(comm, 0, 0, &part), RONDO_INVALID, "end the group first");
	TRY(rondo_group_end());
	if (sum != 2)
		return world_report(env, "the sum is %d", sum);
	TRY(rondo_group_start());
	TRY(rondo_all_reduce(comm, &sum, &sum, 1, RONDO_I32, RONDO_SUM, stream));
	rondo_stream_destroy(stream);
	EXPECT_ERROR(rondo_group_end(), RONDO_INVALID, "rondo_stream_destroy");
	TRY(rondo_barrier(comm, NULL));
	return 0;
}

Test(groups, keep_what_their_calls_need, .timeout = 60)
{
	run_soon(leave_within_a_group);
}

static int empty_ones(struct rank_env *env)
{
	TRY(rondo_all_reduce(env->comm, NULL, NULL, 0, RONDO_F32, RONDO_SUM, NULL));
	TRY(rondo_all_to_all(env->comm, NULL, NULL, 0, RONDO_F32, NULL));
	TRY(rondo_group_start());
	TRY(rondo_send(env->comm, NULL, 0, RONDO_F32, env->rank, NULL));
	TRY(rondo_recv(env->comm, NULL, 0, RONDO_F32, env->rank, NULL));
	TRY(rondo_group_end());
	TRY(rondo_group_start());
	TRY(rondo_group_start());
	TRY(rondo_group_end());
	TRY(rondo_group_end());
	return 0;
}

Test(calls, of_no_elements_need_no_buffers, .timeout = 60)
{
	world_try(2, "shm", empty_ones);
	world_try(1, NULL, empty_ones);
}

/* ---- Again and again ------------------------------------------------------------------------- */

static int add(struct rank_env *env, int count, rondo_op op, int wanted)
{
	int in[3] = { 1, 2, 3 }, out[4] = { -1, -1, -1, -1 };

	TRY(rondo_all_reduce(env->comm, in, out, count, RONDO_I32, op, NULL));
	for (int i = 0; i < 4; i++)
		if (out[i] != (i < count ? in[i] * wanted : -1))
			return world_report(
				env, "%d of %d of %s: %d", i, count, rondo_op_name(op), out[i]);
	return 0;
}

static int add_doubles(struct rank_env *env)
{
	double in[2] = { 0.5, 0.25 }, out[2];

	TRY(rondo_all_reduce(env->comm, in, out, 2, RONDO_F64, RONDO_SUM, NULL));
	if (out[0] != 0.5 * env->size || out[1] != 0.25 * env->size)
		return world_report(env, "the doubles are %g and %g", out[0], out[1]);
	return 0;
}

static int broadcast_number(struct rank_env *env, int root)
{
	int number = env->rank == root ? 100 + root : -1;

	TRY(rondo_broadcast(env->comm, &number, &number, 1, RONDO_I32, root, NULL));
	return number == 100 + root ? 0 : world_report(env, "rank %d sent %d", root, number);
}

/* Each call differs from the one before in one thing, and is made twice. */
static int vary_one_thing(struct rank_env *env)
{
	int size = env->size, err = 0;

	for (int i = 0; i < 20 && !err; i++) {
		int twice = i / 2 % 5;

		if (twice == 0)
			err = add(env, 2, RONDO_SUM, size);
		else if (twice == 1)
			err = add_doubles(env);
		else if (twice == 2)
			err = add(env, 3, RONDO_SUM, size);
		else if (twice == 3)
			err = add(env, 3, RONDO_MAX, 1);
		else
			err = add(env, 2, RONDO_MIN, 1);
		if (!err)
			err = broadcast_number(env, i / 2 % size);
	}
	return err;
}

Test(calls, that_differ_from_the_last_in_one_thing_are_not_taken_for_it, .timeout = 60)
{
	world_try(2, "shm", vary_one_thing);
	world_try(3, "mixed", vary_one_thing);
}

static int add_one(struct rank_env *env, const int *in, int *out)
{
	return rondo_all_reduce(env->comm, in, out, 1, RONDO_I32, RONDO_SUM, NULL);
}

/* The same call with another output, in a group, and on a comm that has been revoked. */
static int repeat_elsewhere(struct rank_env *env)
{
	int in = 1, out = 0, other = 0;

	for (int i = 0; i < 3; i++)
		TRY(add_one(env, &in, &out));
	TRY(add_one(env, &in, &other));
	if (out != env->size || other != env->size)
		return world_report(env, "the sums are %d and %d", out, other);

	other = -1;
	TRY(rondo_group_start());
	TRY(add_one(env, &in, &other));
	if (other != -1)
		return world_report(env, "a call ran before the end of its group");
	TRY(rondo_group_end());
	if (other != env->size)
		return world_report(env, "the sum of a group is %d", other);

	TRY(add_one(env, &in, &other));
	TRY(rondo_comm_revoke(env->comm, "enough"));
	return world_expect(env, "call", add_one(env, &in, &other), RONDO_REVOKED, "enough");
}

Test(calls, that_repeat_the_last_run_where_and_when_they_must, .timeout = 60)
{
	WORLD_TRY(
		repeat_elsewhere, .size = 2, .transport = "shm", .quiet = true, .limit_ms = 30000);
}

/* ---- An equal call -------------------------------------------------------------------------- */

/* The timeout was changed since the last one, and the other rank does not come. */
static int outwait_an_equal_call(struct rank_env *env)
{
	int64_t end_ms = world_now_ms() + 20000;
	float value = 1;

	for (int i = 0; i < 5; i++)
		TRY(rondo_all_reduce(env->comm, &value, &value, 1, RONDO_F32, RONDO_MAX, NULL));
	while (env->rank == 1 && !rondo_comm_error(env->comm) && world_now_ms() < end_ms)
		poll(NULL, 0, 1);
	if (env->rank == 1)
		return rondo_comm_error(env->comm) != RONDO_TIMEOUT;
	TRY(rondo_comm_set_timeout(env->comm, 300));
	EXPECT_ERROR(rondo_all_reduce(env->comm, &value, &value, 1, RONDO_F32, RONDO_MAX, NULL),
		RONDO_TIMEOUT, "all_reduce #6");
	return 0;
}

Test(calls, that_equal_the_last_have_their_own_timeout_and_number, .timeout = 90)
{
	run_soon(outwait_an_equal_call);
}
