/* ctest label: threads */
/* Receives from any source, once all other ranks have left the comm: rank 0's process lives on. */
#include <criterion/criterion.h>
#include <sched.h>
#include <stdlib.h>

#include "api/tagged_driver.h"
#include "tagged.h"

/* The receiver, and whether messages go before, so that there is a link. */
static struct {
	int receiver;
	bool send, early, polls, finalizes;
} way;

static const char words[] = "from any source with tag 4, and all other ranks have left";

/* ---- After the others ------------------------------------------------------------------------ */

static int leave_comm(struct rank_env *env, rondo_comm *comm)
{
	if (way.send)
		TRY(send_one(comm, "x", 1, way.receiver, 4));
	if (way.send)
		TRY(send_one(comm, "y", 1, way.receiver, 5));
	/* It waits for the receiver where this is rank 0. */
	if (way.finalizes)
		TRY(rondo_comm_finalize(comm));
	TRY(rondo_comm_destroy(comm));
	return 0;
}

/* A receive that takes a message of this rank itself, and one that is cancelled: the comm lives. */
static int continues(struct rank_env *env, rondo_comm *comm)
{
	rondo_request *receive, *cancelled;
	char in[2] = "";

	TRY(begin_receive(comm, &in[0], 1, RONDO_ANY_SOURCE, 4, &receive));
	TRY(begin_receive(comm, &in[1], 1, RONDO_ANY_SOURCE, 4, &cancelled));
	for (int i = 0; i < 100; i++)
		if (rondo_request_test(receive) != RONDO_PENDING)
			return world_report(env, "a receive for which nobody waits ended");
	TRY(send_one(comm, "z", 1, way.receiver, 4));
	TRY(end(receive));
	TRY(rondo_request_cancel(cancelled));
	EXPECT_ERROR(rondo_request_wait(cancelled, WAIT_MS), RONDO_REVOKED, "cancelled");
	rondo_request_destroy(cancelled);
	TRY(rondo_comm_error(comm));
	return in[0] == 'z' ? 0 : world_report(env, "it received %d of itself", in[0]);
}

/* Those that nobody waits for have the bound of calls. */
static int end_by_tests(struct rank_env *env, rondo_comm *comm)
{
	int64_t until_ms = world_now_ms() + WAIT_MS;
	rondo_request *request;
	char in = 0;
	int err;

	TRY(rondo_comm_set_timeout(comm, 200));
	TRY(begin_receive(comm, &in, 1, RONDO_ANY_SOURCE, 4, &request));
	while ((err = rondo_request_test(request)) == RONDO_PENDING && world_now_ms() < until_ms)
		sched_yield();
	EXPECT_ERROR(err, RONDO_LEFT, words);
	rondo_request_destroy(request);
	/* The next one has a bound of its own. */
	TRY(rondo_comm_set_timeout(comm, WAIT_MS));
	TRY(begin_receive(comm, &in, 1, RONDO_ANY_SOURCE, 4, &request));
	if (rondo_request_test(request) != RONDO_PENDING)
		return world_report(env, "a receive ended with the one before");
	TRY(send_one(comm, "z", 1, way.receiver, 4));
	TRY(end(request));
	return in == 'z' ? 0 : world_report(env, "it received %d of itself", in);
}

static int receive_of(struct rank_env *env, rondo_comm *comm, int leavers)
{
	rondo_request *request;
	int32_t source = -1;
	char in[2] = "";

	for (int i = 0; i < leavers && way.send; i++)
		TRY(receive_one(comm, &in[0], 1, RONDO_ANY_SOURCE, 4));
	if (way.polls && end_by_tests(env, comm))
		return 1;
	TRY(begin_receive(comm, &in[1], 1, RONDO_ANY_SOURCE, 4, &request));
	EXPECT_ERROR(rondo_request_wait(request, WAIT_MS), RONDO_LEFT, words);
	EXPECT_ERROR(rondo_request_source(request, &source, NULL), RONDO_LEFT, words);
	/* It is started again, and ends again. */
	TRY(rondo_request_start(request, NULL, NULL));
	EXPECT_ERROR(rondo_request_wait(request, WAIT_MS), RONDO_LEFT, words);
	rondo_request_destroy(request);
	for (int i = 0; i < leavers && way.send; i++)
		TRY(receive_one(comm, &in[0], 1, RONDO_ANY_SOURCE, 5));
	if (!way.polls && continues(env, comm))
		return 1;
	if (way.send && in[0] != 'y')
		return world_report(env, "it received %d", in[0]);
	TRY(rondo_comm_destroy(comm));
	return 0;
}

static int all_leave(struct rank_env *env)
{
	rondo_comm *comm = env->comm;
	int wrong;

	TRY(rondo_barrier(comm, NULL));
	env->comm = NULL;
	wrong = env->rank == way.receiver ? receive_of(env, comm, env->size - 1)
					  : leave_comm(env, comm);
	/* Rank 0's process lives until then. */
	world_meet(env, env->size);
	return wrong;
}

static void try_all(int size, int (*body)(struct rank_env *env))
{
	for (int i = 0; i < 4; i++) {
		struct world world = { .size = size,
			.transport = i % 2 ? "tcp" : "shm",
			.threads = ONLY_THREADS || i > 1 };

		cr_assert_eq(world_run(&world, body, NULL, NULL), 0, "%s", world.transport);
	}
}

Test(tagged_leavers, end_a_receive_from_any_source, .timeout = 120)
{
	for (int i = 0; i < 8; i++) {
		way.receiver = i % 2 ? 1 : 0;
		way.send = i / 2 % 2;
		try_all(2 + i / 4, all_leave);
	}
}

Test(tagged_leavers, end_a_receive_that_nobody_waits_for_after_the_bound_of_calls, .timeout = 60)
{
	way.polls = way.send = true;
	try_all(2, all_leave);
}

Test(tagged_leavers, end_a_receive_while_they_finalize, .timeout = 60)
{
	way.finalizes = true;
	for (way.receiver = 0; way.receiver < 2; way.receiver++)
		try_all(3, all_leave);
}

static void set_drives(rondo_comm *comm, bool drives)
{
	struct rd_mailbox *mailbox = atomic_load(&comm->mailbox);

	rd_mailbox_enter(mailbox);
	mailbox->driver->drives = drives;
	rd_mailbox_exit(mailbox);
}

/* Another thread drives, as it seems, and looks no more: the wait itself ends the receive. */
static int receive_beside_a_driver(struct rank_env *env, rondo_comm *comm)
{
	int64_t until_ms = world_now_ms() + WAIT_MS;
	rondo_request *request;
	char in;
	int err;

	while (!rd_control_others_left(comm->control) && world_now_ms() < until_ms)
		sched_yield();
	TRY(rondo_recv_tagged(comm, &in, 1, RONDO_ANY_SOURCE, 4, &request));
	set_drives(comm, true);
	TRY(rondo_request_start(request, NULL, NULL));
	err = rondo_request_wait(request, WAIT_MS / 4);
	set_drives(comm, false);
	EXPECT_ERROR(err, RONDO_LEFT, words);
	rondo_request_destroy(request);
	TRY(rondo_comm_destroy(comm));
	return 0;
}

static int end_beside_a_driver(struct rank_env *env)
{
	rondo_comm *comm = env->comm;
	int wrong;

	TRY(rondo_barrier(comm, NULL));
	env->comm = NULL;
	wrong = env->rank == way.receiver ? receive_beside_a_driver(env, comm)
					  : leave_comm(env, comm);
	world_meet(env, env->size);
	return wrong;
}

Test(tagged_leavers, end_a_receive_while_another_thread_drives, .timeout = 60)
{
	for (way.receiver = 0; way.receiver < 2; way.receiver++)
		try_all(2, end_beside_a_driver);
}

/* ---- Sends ----------------------------------------------------------------------------------- */

#define LARGE 1200000

/* Rank 1 leaves, and has received nothing of this rank, or one message. */
static int send_to_leaver(struct rank_env *env)
{
	char *data = calloc(LARGE, 1);
	rondo_comm *comm = env->comm;
	rondo_request *request;

	TRY(rondo_barrier(comm, NULL));
	env->comm = NULL;
	if (way.send && env->rank == 0)
		TRY(send_one(comm, data, 1, 1, 4));
	if (env->rank == 0 && way.early)
		TRY(begin_send(comm, data, LARGE, 1, 5, &request));
	if (way.send && env->rank == 1)
		TRY(receive_one(comm, data, 1, 0, 4));
	if (env->rank == 1)
		TRY(rondo_comm_destroy(comm));
	world_meet(env, env->size);
	if (env->rank == 0 && !way.early)
		TRY(begin_send(comm, data, LARGE, 1, 5, &request));
	if (env->rank == 0) {
		EXPECT_ERROR(rondo_request_wait(request, WAIT_MS), RONDO_LEFT,
			"rank 0 has a tagged message under way with rank 1: ");
		rondo_request_destroy(request);
		TRY(rondo_comm_destroy(comm));
	}
	world_meet(env, env->size);
	free(data);
	return 0;
}

Test(tagged_leavers, end_a_send_to_one, .timeout = 60)
{
	for (int i = 0; i < 4; i++) {
		way.send = i % 2;
		way.early = i / 2;
		try_all(2, send_to_leaver);
	}
}

/* ---- Some of the others ---------------------------------------------------------------------- */

/* Ranks 0 and 1 leave, one after the other; rank 2 receives, and sends in between. */
static int one_leaves(struct rank_env *env)
{
	rondo_comm *comm = env->comm;
	rondo_request *request;
	char in = 0;

	TRY(rondo_barrier(comm, NULL));
	if (env->rank == 2)
		TRY(begin_receive(comm, &in, 1, RONDO_ANY_SOURCE, 4, &request));
	if (env->rank == way.receiver) {
		env->comm = NULL;
		TRY(rondo_comm_destroy(comm));
	}
	world_meet(env, env->size);
	if (env->rank == 2 && rondo_request_wait(request, 200) != RONDO_PENDING)
		return world_report(env, "it ended though a rank is left");
	world_meet(env, env->size);
	if (env->rank == 1 - way.receiver) {
		env->comm = NULL;
		TRY(send_one(comm, "x", 1, 2, 4));
		TRY(rondo_comm_destroy(comm));
	}
	if (env->rank == 2) {
		TRY(end(request));
		TRY(begin_receive(comm, &in, 1, RONDO_ANY_SOURCE, 4, &request));
		EXPECT_ERROR(rondo_request_wait(request, WAIT_MS), RONDO_LEFT, words);
		rondo_request_destroy(request);
	}
	world_meet(env, env->size);
	return 0;
}

Test(tagged_leavers, end_none_while_one_is_left, .timeout = 60)
{
	for (way.receiver = 0; way.receiver < 2; way.receiver++)
		try_all(3, one_leaves);
}

/* ---- Parts of a comm ------------------------------------------------------------------------- */

static int in_a_part(struct rank_env *env)
{
	int color = env->rank == 0 ? 0 : 1, wrong = 0;
	rondo_comm *part;

	TRY(rondo_comm_split(env->comm, color, 0, &part));
	if (env->rank > 0)
		wrong = env->rank - 1 == way.receiver ? receive_of(env, part, 1)
						      : leave_comm(env, part);
	else
		TRY(rondo_comm_destroy(part));
	TRY(rondo_barrier(env->comm, NULL));
	return wrong;
}

Test(tagged_leavers, end_a_receive_in_a_part_of_a_comm, .timeout = 60)
{
	for (int i = 0; i < 4; i++) {
		way.receiver = i % 2;
		way.send = i / 2;
		try_all(3, in_a_part);
	}
}
