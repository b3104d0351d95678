/* ctest label: threads */
/* Calls on host streams, several comms at once, and streams after a failure. */
#include <criterion/criterion.h>

#include "world.h"

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
			return world_report(env, "bucket %d is %g", i, values[i][4999]);
	return counter == 8 ? 0 : world_report(env, "%d calls ran", counter);
}

Test(streams, run_their_calls_in_order_beside_the_caller, .timeout = 60)
{
	world_try(1, NULL, on_a_stream);
	world_try(2, "shm", on_a_stream);
	world_try(4, "mixed", on_a_stream);
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
	return theirs == peer ? 0 : world_report(env, "got %d", theirs);
}

Test(streams, run_groups, .timeout = 60)
{
	world_try(2, "shm", group_on_a_stream);
	world_try(2, "tcp", group_on_a_stream);
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
	/* The ranks begin with different comms, which is no deadlock in a group. */
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
		return world_report(env, "got %g and %g", a[3], b[2]);
	return 0;
}

Test(comms, two_at_once_do_not_disturb_each_other, .timeout = 60)
{
	world_try(2, "shm", two_comms);
	world_try(3, "mixed", two_comms);
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
			return world_report(env, "got %g", buffers[i][99999]);
	}
	TRY(rondo_comm_destroy(comms[1]));
	return 0;
}

Test(comms, run_side_by_side_on_streams, .timeout = 60)
{
	world_try(2, "shm", two_streams);
	world_try(2, "tcp", two_streams);
}

/* ---- The end of a stream within it --------------------------------------------------------- */

struct ending {
	rondo_stream *stream;
	sem_t go, told;
};

static void end_own_stream(void *argument)
{
	struct ending *ending = argument;

	world_wait(&ending->go);
	rondo_stream_destroy(ending->stream);
}

static void tell(void *argument)
{
	struct ending *ending = argument;

	sem_post(&ending->told);
}

Test(comms, a_stream_that_ends_itself_does_its_work, .timeout = 60)
{
	struct ending ending;

	sem_init(&ending.go, 0, 0);
	sem_init(&ending.told, 0, 0);
	cr_assert_eq(rondo_stream_create(&ending.stream), 0);
	cr_assert_eq(rondo_stream_call(ending.stream, end_own_stream, &ending), 0);
	cr_assert_eq(rondo_stream_call(ending.stream, tell, &ending), 0);
	sem_post(&ending.go);
	world_wait(&ending.told);
}

/* ---- Failure ------------------------------------------------------------------------------ */

/* The results of queries in a stream's function. */
struct sight {
	rondo_stream *stream;
	sem_t *wait; /* NULL: it waits for nothing */
	int calls, query, synchronize;
};

static void look_back(void *argument)
{
	struct sight *sight = argument;

	if (sight->wait)
		world_wait(sight->wait);
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
	int err = world_second_comm(env, &other);

	if (err)
		return err;
	/* Rank 0 continues when both have created the other comm. Rank 1 gets the abort in this
	   barrier or in the next. */
	err = rondo_barrier(other, NULL);
	if (env->rank == 1) {
		if (!err)
			err = rondo_barrier(other, NULL);
		if (world_expect(env, "barrier", err, RONDO_REVOKED,
			    "rank 0 skipped a call behind a failure"))
			return 1;
		rondo_comm_destroy(other);
		/* Returns the abort, unless the control thread has received it already. */
		err = rondo_comm_destroy(env->comm);
		env->comm = NULL;
		return err ? world_expect(env, "destroy", err, RONDO_REVOKED, "enough") : 0;
	}
	TRY(err);
	sem_init(&go, 0, 0);
	TRY(rondo_stream_create(&stream));
	before = (struct sight){ .stream = stream, .wait = &go };
	after = (struct sight){ .stream = stream };
	TRY(rondo_stream_query(stream));
	TRY(rondo_stream_call(stream, look_back, &before));
	if (rondo_stream_query(stream) != RONDO_PENDING)
		return world_report(env, "the work is done before it was let begin");
	TRY(rondo_barrier(env->comm, stream));
	TRY(rondo_barrier(other, stream));
	TRY(rondo_stream_call(stream, look_back, &after));
	TRY(rondo_comm_revoke(env->comm, "enough"));
	sem_post(&go);
	EXPECT_ERROR(rondo_stream_synchronize(stream), RONDO_REVOKED, "enough");
	EXPECT_ERROR(rondo_stream_query(stream), RONDO_REVOKED, "enough");
	rondo_stream_destroy(stream);
	rondo_comm_destroy(other);
	if (before.calls != 1 || before.query != 0 || before.synchronize != RONDO_INVALID)
		return world_report(
			env, "before: %d, %d, %d", before.calls, before.query, before.synchronize);
	if (after.calls != 1 || after.query != RONDO_REVOKED || after.synchronize != RONDO_INVALID)
		return world_report(
			env, "after: %d, %d, %d", after.calls, after.query, after.synchronize);
	return 0;
}

Test(streams, skip_calls_behind_a_failure_and_call_functions, .timeout = 90)
{
	WORLD_TRY(skip_behind_a_failure, .size = 2, .transport = "shm", .limit_ms = 30000);
}
