/* ctest label: threads */
/* Sends and receives, groups, streams, several comms, and calls that are refused. */
#include <criterion/criterion.h>
#include <poll.h>
#include <pthread.h>
#include <semaphore.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "world.h"

static void run(int size, const char *transport, int (*body)(struct rank_env *env))
{
	struct world world = { .size = size, .transport = transport };

	cr_assert_eq(world_run(&world, body, NULL, NULL), 0);
}

/* ---- Transfers and groups ------------------------------------------------------------------ */

static int pass_round(struct rank_env *env)
{
	int size = env->size, rank = env->rank, token = -1;

	for (int round = 0; round < 100; round++) {
		int mine = rank * 1000 + round;

		TRY(rondo_group_start());
		TRY(rondo_send(env->comm, &mine, 1, RONDO_I32, (rank + 1) % size, NULL));
		TRY(rondo_recv(env->comm, &token, 1, RONDO_I32, (rank + size - 1) % size, NULL));
		TRY(rondo_group_end());
		if (token != (rank + size - 1) % size * 1000 + round)
			return world_say(env, "round %d: got %d", round, token);
	}
	return 0;
}

Test(transfers, in_a_group_go_both_ways_at_once, .timeout = 60)
{
	run(2, "shm", pass_round);
	run(4, "tcp", pass_round);
	run(5, "mixed", pass_round);
}

static int call_badly(struct rank_env *env)
{
	float number = 0;

	if (rondo_send(env->comm, &number, 1, RONDO_F32, 7, NULL) != RONDO_INVALID ||
		strcmp(rondo_last_error(), "send: rank 7 is not in 0..1") != 0)
		return world_say(env, "%s", rondo_last_error());
	if (rondo_recv(env->comm, &number, 1, RONDO_F32, -1, NULL) != RONDO_INVALID ||
		strcmp(rondo_last_error(), "recv: rank -1 is not in 0..1") != 0)
		return world_say(env, "%s", rondo_last_error());
	if (rondo_send(NULL, &number, 1, RONDO_F32, 0, NULL) != RONDO_INVALID ||
		strcmp(rondo_last_error(), "send: comm is NULL") != 0)
		return world_say(env, "%s", rondo_last_error());
	if (rondo_recv(env->comm, NULL, 1, RONDO_F32, 0, NULL) != RONDO_INVALID ||
		strcmp(rondo_last_error(), "recv: the buffer is NULL") != 0)
		return world_say(env, "%s", rondo_last_error());
	return 0;
}

Test(transfers, that_are_refused_are_called_send_and_recv, .timeout = 60)
{
	run(2, "shm", call_badly);
}

Test(transfers, of_a_rank_to_itself_are_copies, .timeout = 60)
{
	run(1, NULL, pass_round);
}

#define LONG 300000

/* The two sides group the same transfers differently, and no message is lost or taken for another.
 */
static int cross_long(struct rank_env *env)
{
	int *out = malloc(2 * LONG * sizeof(int)), *in = malloc(2 * LONG * sizeof(int));
	int peer = 1 - env->rank, wrong = -1;

	for (int i = 0; i < 2 * LONG; i++)
		out[i] = env->rank * 7 + i;
	TRY(rondo_group_start());
	TRY(rondo_send(env->comm, out, LONG, RONDO_I32, peer, NULL));
	TRY(rondo_send(env->comm, out + LONG, LONG, RONDO_I32, peer, NULL));
	if (env->rank == 1) {
		TRY(rondo_group_end());
		TRY(rondo_group_start());
	}
	TRY(rondo_recv(env->comm, in, LONG, RONDO_I32, peer, NULL));
	if (env->rank == 1) {
		TRY(rondo_group_end());
		TRY(rondo_group_start());
	}
	TRY(rondo_recv(env->comm, in + LONG, LONG, RONDO_I32, peer, NULL));
	TRY(rondo_group_end());
	for (int i = 0; i < 2 * LONG && wrong < 0; i++)
		if (in[i] != peer * 7 + i)
			wrong = i;
	free(out);
	free(in);
	return wrong < 0 ? 0 : world_say(env, "element %d is wrong", wrong);
}

Test(transfers, keep_their_order_however_they_are_grouped, .timeout = 60)
{
	run(2, "shm", cross_long);
	run(2, "tcp", cross_long);
}

/* Everybody sends to everybody, in unlike orders and sizes, among collectives. */
static int storm(struct rank_env *env)
{
	int size = env->size, rank = env->rank, sum = 0, one = 1;
	char *out = malloc(size * 200000), *in = malloc(size * 200000);

	memset(out, rank, size * 200000);
	TRY(rondo_group_start());
	TRY(rondo_all_reduce(env->comm, &one, &sum, 1, RONDO_I32, RONDO_SUM, NULL));
	for (int i = 0; i < size; i++)
		TRY(rondo_send(
			env->comm, out, 1000 + 50000 * rank, RONDO_I8, (rank + i) % size, NULL));
	for (int i = size - 1; i >= 0; i--)
		TRY(rondo_recv(env->comm, in + i * 200000, 1000 + 50000 * i, RONDO_I8, i, NULL));
	TRY(rondo_barrier(env->comm, NULL));
	TRY(rondo_group_end());
	for (int i = 0; i < size; i++)
		if (in[i * 200000] != i || in[i * 200000 + 999 + 50000 * i] != i)
			return world_say(env, "rank %d's bytes are wrong", i);
	free(out);
	free(in);
	return sum == size ? 0 : world_say(env, "the sum is %d", sum);
}

Test(transfers, and_collectives_share_a_group, .timeout = 60)
{
	run(3, "shm", storm);
	run(4, "tcp", storm);
	run(4, "mixed", storm);
}

/* ---- After a call --------------------------------------------------------------------------- */

#define HEAVY (32 << 20)

/*
 * Who has returned from a call makes no more calls, and the others get all of it nevertheless.
 * Ranks 2 and 1 of the chain to the root wait for the root's word that it is done.
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
		return world_say(env, "the root still waits for bytes of this rank's");
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

/* ---- Streams ------------------------------------------------------------------------------- */

static void count_up(void *argument)
{
	++*(int *)argument;
}

static int on_a_stream(struct rank_env *env)
{
	static float values[8][5000];
	rondo_stream *stream;
	int counter = 0;

	TRY(rondo_stream_create(&stream));
	for (int i = 0; i < 8; i++) {
		for (int k = 0; k < 5000; k++)
			values[i][k] = (float)(env->rank + i);
		TRY(rondo_all_reduce(
			env->comm, values[i], values[i], 5000, RONDO_F32, RONDO_AVG, stream));
		TRY(rondo_stream_call(stream, count_up, &counter));
	}
	/* A blocking call waits for the calls that were queued before it. */
	TRY(rondo_all_reduce(env->comm, values[7], values[7], 5000, RONDO_F32, RONDO_MAX, NULL));
	TRY(rondo_stream_synchronize(stream));
	rondo_stream_destroy(stream);
	for (int i = 0; i < 8; i++)
		if (values[i][4999] != (float)(env->size - 1) / 2 + (float)i)
			return world_say(env, "bucket %d is %g", i, values[i][4999]);
	return counter == 8 ? 0 : world_say(env, "%d calls ran", counter);
}

Test(streams, run_their_calls_in_order_beside_the_caller, .timeout = 60)
{
	run(1, NULL, on_a_stream);
	run(2, "shm", on_a_stream);
	run(4, "mixed", on_a_stream);
}

static int group_on_a_stream(struct rank_env *env)
{
	int mine = env->rank, peer = 1 - env->rank, theirs = -1;
	rondo_stream *stream;

	TRY(rondo_stream_create(&stream));
	TRY(rondo_group_start());
	TRY(rondo_send(env->comm, &mine, 1, RONDO_I32, peer, stream));
	TRY(rondo_recv(env->comm, &theirs, 1, RONDO_I32, peer, stream));
	TRY(rondo_group_end());
	TRY(rondo_stream_synchronize(stream));
	rondo_stream_destroy(stream);
	return theirs == peer ? 0 : world_say(env, "got %d", theirs);
}

Test(streams, run_groups, .timeout = 60)
{
	run(2, "shm", group_on_a_stream);
	run(2, "tcp", group_on_a_stream);
}

/* ---- Several comms ------------------------------------------------------------------------- */

static int two_comms(struct rank_env *env)
{
	rondo_comm *other;
	static double a[10000], b[10000];
	int wrong = world_second_comm(env, &other);

	if (wrong)
		return wrong;
	for (int i = 0; i < 10000; i++)
		a[i] = b[i] = i;
	/* The ranks begin with different comms: a group makes that no deadlock. */
	TRY(rondo_group_start());
	for (int i = 0; i < 2; i++) {
		if (i == env->rank % 2)
			TRY(rondo_all_reduce(env->comm, a, a, 10000, RONDO_F64, RONDO_SUM, NULL));
		else
			TRY(rondo_all_reduce(other, b, b, 10000, RONDO_F64, RONDO_PROD, NULL));
	}
	TRY(rondo_group_end());
	TRY(rondo_comm_destroy(other));
	if (a[3] != 3 * env->size || b[2] != 1 << env->size)
		return world_say(env, "got %g and %g", a[3], b[2]);
	return 0;
}

Test(comms, two_at_once_do_not_disturb_each_other, .timeout = 60)
{
	run(2, "shm", two_comms);
	run(3, "mixed", two_comms);
}

/* Two comms, each busy on a stream of its own. */
static int two_streams(struct rank_env *env)
{
	rondo_stream *streams[2];
	rondo_comm *comms[2] = { env->comm, NULL };
	static float buffers[2][100000];
	int wrong = world_second_comm(env, &comms[1]);

	if (wrong)
		return wrong;
	for (int i = 0; i < 2; i++) {
		TRY(rondo_stream_create(&streams[i]));
		for (int k = 0; k < 100000; k++)
			buffers[i][k] = 1;
	}
	for (int round = 0; round < 10; round++)
		for (int i = 0; i < 2; i++)
			TRY(rondo_all_reduce(comms[i], buffers[i], buffers[i], 100000, RONDO_F32,
				RONDO_MAX, streams[i]));
	for (int i = 0; i < 2; i++) {
		TRY(rondo_stream_synchronize(streams[i]));
		rondo_stream_destroy(streams[i]);
		if (buffers[i][99999] != 1)
			return world_say(env, "got %g", buffers[i][99999]);
	}
	TRY(rondo_comm_destroy(comms[1]));
	return 0;
}

Test(comms, run_side_by_side_on_streams, .timeout = 60)
{
	run(2, "shm", two_streams);
	run(2, "tcp", two_streams);
}

/* ---- What is refused ----------------------------------------------------------------------- */

static int expect(struct rank_env *env, int got, int wanted, const char *words)
{
	if (got != wanted || !strstr(rondo_last_error(), words))
		return world_say(env, "%s: %s, wanted %s: ...%s...", rondo_error_name(got),
			rondo_last_error(), rondo_error_name(wanted), words);
	return 0;
}

static int refusals(struct rank_env *env)
{
	rondo_comm *comm = env->comm;
	float in[8] = { 0 }, out[8];
	int wrong = 0;

	wrong |= expect(env, rondo_all_reduce(NULL, in, out, 1, RONDO_F32, RONDO_SUM, NULL),
		RONDO_INVALID, "all_reduce: comm is NULL");
	wrong |= expect(env, rondo_all_reduce(comm, NULL, out, 1, RONDO_F32, RONDO_SUM, NULL),
		RONDO_INVALID, "all_reduce: send is NULL");
	wrong |= expect(env, rondo_all_gather(comm, in, NULL, 1, RONDO_F32, NULL), RONDO_INVALID,
		"all_gather: recv is NULL");
	wrong |= expect(env, rondo_all_reduce(comm, in, out, 1, 77, RONDO_SUM, NULL), RONDO_INVALID,
		"77 is no type");
	wrong |= expect(env, rondo_all_reduce(comm, in, out, 1, RONDO_F32, 99, NULL), RONDO_INVALID,
		"99 is no operation");
	wrong |= expect(env, rondo_broadcast(comm, in, out, 1, RONDO_F32, 2, NULL), RONDO_INVALID,
		"rank 2 is not in 0..1");
	wrong |= expect(env, rondo_broadcast(comm, in, out, 1, RONDO_F32, -1, NULL), RONDO_INVALID,
		"rank -1 is not in 0..1");
	wrong |= expect(env,
		rondo_all_reduce(comm, in, out, SIZE_MAX / 8, RONDO_F32, RONDO_SUM, NULL),
		RONDO_INVALID, "too large");
	wrong |= expect(env, rondo_all_reduce(comm, in, in + 1, 4, RONDO_F32, RONDO_SUM, NULL),
		RONDO_INVALID, "overlap");
	wrong |= expect(env, rondo_send(comm, in, 1, RONDO_F32, env->rank, NULL), RONDO_INVALID,
		"in one group");
	wrong |= expect(env, rondo_group_end(), RONDO_INVALID, "without rondo_group_start");
	wrong |= expect(env, rondo_stream_synchronize(NULL), RONDO_INVALID, "stream is NULL");
	if (wrong)
		return wrong;

	/* A call that is refused takes its whole group with it, and nothing has been sent. */
	TRY(rondo_group_start());
	TRY(rondo_send(comm, in, 1, RONDO_F32, 1 - env->rank, NULL));
	wrong |= expect(env, rondo_recv(comm, NULL, 1, RONDO_F32, 1 - env->rank, NULL),
		RONDO_INVALID, "the buffer is NULL");
	wrong |= expect(env, rondo_group_end(), RONDO_INVALID, "the buffer is NULL");
	TRY(rondo_group_start());
	TRY(rondo_send(comm, in, 1, RONDO_F32, env->rank, NULL));
	wrong |= expect(env, rondo_group_end(), RONDO_INVALID, "no counterpart");
	TRY(rondo_barrier(comm, NULL));
	return wrong;
}

Test(calls, that_make_no_sense_are_refused_and_harm_nothing, .timeout = 60)
{
	run(2, "shm", refusals);
}

/* ---- Bounded ---------------------------------------------------------------------------- */

static bool wait_soon(sem_t *sem)
{
	struct timespec until;

	clock_gettime(CLOCK_REALTIME, &until);
	until.tv_sec += 20;
	return sem_timedwait(sem, &until) == 0;
}

static void run_soon(int (*body)(struct rank_env *env))
{
	struct world world = { .size = 2, .transport = "shm", .limit_ms = 30000 };

	cr_assert_eq(world_run(&world, body, NULL, NULL), 0);
}

/* ---- Streams that have failed -------------------------------------------------------------- */

/* What a stream's function sees of the work before it. */
struct sight {
	rondo_stream *stream;
	sem_t *wait; /* NULL: it waits for nothing */
	int calls, query, synchronize;
};

static void look_back(void *argument)
{
	struct sight *sight = argument;

	if (sight->wait)
		wait_soon(sight->wait);
	sight->calls++;
	sight->query = rondo_stream_query(sight->stream);
	sight->synchronize = rondo_stream_synchronize(sight->stream);
}

static int skip_behind_a_failure(struct rank_env *env)
{
	struct sight before = { 0 }, after = { 0 };
	rondo_stream *stream;
	rondo_comm *other;
	sem_t go;
	int err = world_second_comm(env, &other), wrong = 0;

	if (err)
		return err;
	/* Rank 1 calls on the other comm in good faith. */
	if (env->rank == 1) {
		wrong |= expect(env, rondo_barrier(other, NULL), RONDO_ABORTED,
			"rank 0 skipped a call behind a failure");
		rondo_comm_destroy(other);
		return wrong;
	}
	sem_init(&go, 0, 0);
	TRY(rondo_stream_create(&stream));
	before = (struct sight){ .stream = stream, .wait = &go };
	after = (struct sight){ .stream = stream };
	TRY(rondo_stream_query(stream));
	TRY(rondo_stream_call(stream, look_back, &before));
	if (rondo_stream_query(stream) != RONDO_PENDING)
		return world_say(env, "the work is done before it was let begin");
	TRY(rondo_barrier(env->comm, stream));
	TRY(rondo_barrier(other, stream));
	TRY(rondo_stream_call(stream, look_back, &after));
	TRY(rondo_comm_abort(env->comm, "enough"));
	sem_post(&go);
	wrong |= expect(env, rondo_stream_synchronize(stream), RONDO_ABORTED, "enough");
	wrong |= expect(env, rondo_stream_query(stream), RONDO_ABORTED, "enough");
	rondo_stream_destroy(stream);
	rondo_comm_destroy(other);
	if (before.calls != 1 || before.query != 0 || before.synchronize != RONDO_INVALID)
		return world_say(
			env, "before: %d, %d, %d", before.calls, before.query, before.synchronize);
	if (after.calls != 1 || after.query != RONDO_ABORTED || after.synchronize != RONDO_INVALID)
		return world_say(
			env, "after: %d, %d, %d", after.calls, after.query, after.synchronize);
	return wrong;
}

Test(streams, skip_calls_behind_a_failure_and_call_functions, .timeout = 90)
{
	run_soon(skip_behind_a_failure);
}

/* ---- Two threads --------------------------------------------------------------------------- */

/* A second thread calls while the first is in an operation of the program's. */
struct intrusion {
	rondo_comm *comm;
	sem_t inside, tried;
	bool met;
	int own, second; /* what the operation itself got, and the second thread */
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
	wait_soon(&intrusion->tried);
}

static void *intrude(void *argument)
{
	struct intrusion *intrusion = argument;

	if (!wait_soon(&intrusion->inside) || !intrusion->met)
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
	/* What was refused has harmed nothing. */
	TRY(rondo_barrier(env->comm, NULL));
	/* It is one rank that combines, or both. */
	if (!intrusion.met && env->rank == 0)
		return 0;
	if (!intrusion.met || intrusion.own != RONDO_INVALID || intrusion.second != RONDO_INVALID ||
		!strstr(intrusion.text, "all_reduce #1"))
		return world_say(env, "%d: %s, and %s: %s", intrusion.met,
			rondo_error_name(intrusion.own), rondo_error_name(intrusion.second),
			intrusion.text);
	return sum == 2 ? 0 : world_say(env, "the sum is %d", sum);
}

Test(calls, of_a_second_thread_are_refused_while_the_first_is_in_one, .timeout = 90)
{
	run_soon(call_from_two_threads);
}

/* A stream's function calls, and an earlier call of the comm's is queued behind a function: that
   very one, or one on another stream that waits for it. */
struct knot {
	rondo_comm *comm;
	sem_t queued, called;
	int err;
	char text[WORLD_TEXT];
};

static void call_ahead(void *argument)
{
	struct knot *knot = argument;

	wait_soon(&knot->queued);
	knot->err = rondo_barrier(knot->comm, NULL);
	snprintf(knot->text, sizeof(knot->text), "%s", rondo_last_error());
	sem_post(&knot->called);
}

static void await_call(void *argument)
{
	struct knot *knot = argument;

	wait_soon(&knot->called);
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
		return world_say(env, "%s: %s", rondo_error_name(knot->err), knot->text);
	return 0;
}

static int abort_a_knot(struct rank_env *env)
{
	rondo_stream *caller, *other;
	struct knot knot;

	if (tie(env, &knot, &caller, &other))
		return 1;
	TRY(rondo_comm_abort(env->comm, "a knot"));
	return untie(env, &knot, caller, other, RONDO_ABORTED, "a knot");
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
	struct world world = {
		.size = 2, .transport = "shm", .timeout_ms = 1000, .limit_ms = 30000
	};

	cr_assert_eq(world_run(&world, outwait_a_knot, NULL, NULL), 0);
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
		return world_say(env, "%s: %s", rondo_error_name(knot.err), knot.text);
	return expect(env, rondo_barrier(env->comm, NULL), RONDO_INVALID, "barrier #1");
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
	int wrong = 0;

	TRY(rondo_stream_create(&stream));
	TRY(rondo_group_start());
	TRY(rondo_all_reduce(comm, &sum, &sum, 1, RONDO_I32, RONDO_SUM, NULL));
	wrong |= expect(env, rondo_comm_destroy(comm), RONDO_INVALID, "end the group first");
	wrong |= expect(env, rondo_comm_finalize(comm), RONDO_INVALID, "end the group first");
	wrong |= expect(
		env, rondo_comm_split(comm, 0, 0, &part), RONDO_INVALID, "end the group first");
	if (wrong)
		return wrong;
	TRY(rondo_group_end());
	if (sum != 2)
		return world_say(env, "the sum is %d", sum);
	TRY(rondo_group_start());
	TRY(rondo_all_reduce(comm, &sum, &sum, 1, RONDO_I32, RONDO_SUM, stream));
	rondo_stream_destroy(stream);
	wrong |= expect(env, rondo_group_end(), RONDO_INVALID, "rondo_stream_destroy");
	TRY(rondo_barrier(comm, NULL));
	return wrong;
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
	run(2, "shm", empty_ones);
	run(1, NULL, empty_ones);
}

/* ---- Again and again ------------------------------------------------------------------------- */

static int add(struct rank_env *env, int count, rondo_op op, int wanted)
{
	int in[3] = { 1, 2, 3 }, out[4] = { -1, -1, -1, -1 };

	TRY(rondo_all_reduce(env->comm, in, out, count, RONDO_I32, op, NULL));
	for (int i = 0; i < 4; i++)
		if (out[i] != (i < count ? in[i] * wanted : -1))
			return world_say(
				env, "%d of %d of %s: %d", i, count, rondo_op_name(op), out[i]);
	return 0;
}

static int add_doubles(struct rank_env *env)
{
	double in[2] = { 0.5, 0.25 }, out[2];

	TRY(rondo_all_reduce(env->comm, in, out, 2, RONDO_F64, RONDO_SUM, NULL));
	if (out[0] != 0.5 * env->size || out[1] != 0.25 * env->size)
		return world_say(env, "the doubles are %g and %g", out[0], out[1]);
	return 0;
}

static int say(struct rank_env *env, int root)
{
	int said = env->rank == root ? 100 + root : -1;

	TRY(rondo_broadcast(env->comm, &said, &said, 1, RONDO_I32, root, NULL));
	return said == 100 + root ? 0 : world_say(env, "rank %d said %d", root, said);
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
			err = say(env, i / 2 % size);
	}
	return err;
}

Test(calls, that_differ_from_the_last_in_one_thing_are_not_taken_for_it, .timeout = 60)
{
	run(2, "shm", vary_one_thing);
	run(3, "mixed", vary_one_thing);
}
