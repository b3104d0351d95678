/* ctest label: threads */
/* Tagged messages that are cancelled, that fail, or for which nobody waits. */
#include <criterion/criterion.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "api/tagged_driver.h"
#include "comm/comm.h"
#include "ends.h"
#include "tagged.h"

/* ---- Cancelling ----------------------------------------------------------------------------- */

static int cancels(struct rank_env *env)
{
	char words[64];
	int peer = 1 - env->rank;
	rondo_request *first, *second, *send;
	int32_t out = 70 + env->rank, in = 0, never = -1;

	TRY(begin_receive(env->comm, &never, 4, peer, 1, &first));
	TRY(begin_receive(env->comm, &in, 4, RONDO_ANY_SOURCE, 1, &second));
	if (rondo_request_wait(first, 1) != RONDO_PENDING)
		return world_report(env, "a receive ended without a message");
	TRY(rondo_request_cancel(first));
	snprintf(words, sizeof(words), "rank %d cancelled its receive from rank %d with tag 1",
		env->rank, peer);
	EXPECT_ERROR(rondo_request_wait(first, WAIT_MS), RONDO_REVOKED, words);
	EXPECT_ERROR(rondo_request_source(first, NULL, NULL), RONDO_REVOKED, "cancelled");
	TRY(rondo_barrier(env->comm, NULL));
	/* The next receive takes the message. */
	TRY(begin_send(env->comm, &out, 4, peer, 1, &send));
	EXPECT_ERROR(rondo_request_cancel(send), RONDO_INVALID, "no receive");
	TRY(rondo_request_wait(second, WAIT_MS));
	TRY(rondo_request_cancel(second));
	TRY(rondo_request_test(second));
	TRY(end(send));
	if (in != 70 + peer || never != -1)
		return world_report(env, "received %d and %d", in, never);
	/* Again, and not cancelled. */
	TRY(rondo_request_start(first, NULL, NULL));
	TRY(send_one(env->comm, &out, 4, peer, 1));
	TRY(end(first));
	rondo_request_destroy(second);
	return never == 70 + peer ? 0 : world_report(env, "at last %d", never);
}

Test(tagged_ends, are_cancelled, .timeout = 60)
{
	on_all_ways(2, cancels);
}

/* ---- Without a thread that waits ------------------------------------------------------------ */

#define LARGE 1200000

static int nobody_waits(struct rank_env *env)
{
	struct end ends = END;
	int peer = 1 - env->rank;
	char *out = calloc(LARGE, 1), *in = calloc(LARGE, 1);
	rondo_request *send, *receive;

	TRY(rondo_send_tagged(env->comm, out, LARGE, peer, 1, &send));
	TRY(rondo_recv_tagged(env->comm, in, LARGE, peer, 1, &receive));
	for (int round = 1; round <= 10; round++) {
		memset(out, round + env->rank, LARGE);
		TRY(rondo_request_start(send, note_end, &ends));
		TRY(rondo_request_start(receive, note_end, &ends));
		if (!await_ends(&ends, 2 * round) || ends.times != 2 * round || ends.error)
			return world_report(env, "round %d: end %d", round, ends.error);
		while (rondo_request_test(send) == RONDO_PENDING ||
			rondo_request_test(receive) == RONDO_PENDING)
			sched_yield();
		if (in[0] != round + peer || in[LARGE - 1] != in[0])
			return world_report(env, "round %d: %d", round, in[0]);
	}
	/* The end of one destroys it; the program destroys the other while it is under way. */
	ends.destroyed = receive;
	TRY(rondo_request_start(receive, note_end, &ends));
	TRY(rondo_request_start(send, NULL, NULL));
	rondo_request_destroy(send);
	if (!await_ends(&ends, 21) || ends.times != 21)
		return world_report(env, "the destroyed one did not end");
	TRY(rondo_barrier(env->comm, NULL));
	/* The destroyed send may still have its memory, though the peer has received all of it. */
	TRY(rondo_comm_finalize(env->comm));
	free(out);
	free(in);
	return 0;
}

Test(tagged_ends, come_without_a_thread_that_waits, .timeout = 60)
{
	on_all_ways(2, nobody_waits);
}

/* ---- Failures ------------------------------------------------------------------------------- */

struct pending {
	rondo_request *from_one, *from_any, *send;
	char in[2], *out;
};

static int begin_all(struct rank_env *env, struct pending *pending, int peer)
{
	pending->out = calloc(LARGE, 1);
	TRY(begin_receive(env->comm, &pending->in[0], 1, peer, 1, &pending->from_one));
	TRY(begin_receive(env->comm, &pending->in[1], 1, RONDO_ANY_SOURCE, 2, &pending->from_any));
	TRY(begin_send(env->comm, pending->out, LARGE, peer, 3, &pending->send));
	return 0;
}

static int expect_all(struct rank_env *env, struct pending *pending, int error, const char *words)
{
	EXPECT_ERROR(rondo_request_wait(pending->from_any, WAIT_MS), error, words);
	EXPECT_ERROR(rondo_request_wait(pending->from_one, WAIT_MS), error, words);
	EXPECT_ERROR(rondo_request_wait(pending->send, WAIT_MS), error, words);
	EXPECT_ERROR(rondo_request_start(pending->send, NULL, NULL), error, words);
	rondo_request_destroy(pending->from_one);
	rondo_request_destroy(pending->from_any);
	rondo_request_destroy(pending->send);
	free(pending->out);
	return 0;
}

static int is_revoked(struct rank_env *env)
{
	struct pending pending;
	rondo_comm *other;
	int wrong = world_second_comm(env, &other);

	if (wrong || begin_all(env, &pending, (env->rank + 1) % env->size))
		return 1;
	TRY(rondo_barrier(other, NULL));
	if (env->rank == 1)
		TRY(rondo_comm_revoke(env->comm, "enough"));
	wrong = expect_all(env, &pending, RONDO_REVOKED, "rank 1 revoked");
	TRY(rondo_comm_destroy(other));
	return wrong;
}

Test(tagged_ends, come_with_a_revoked_comm, .timeout = 60)
{
	on_all_ways(2, is_revoked);
	on_all_ways(3, is_revoked);
}

static int dies(struct rank_env *env)
{
	struct pending pending;

	if (begin_all(env, &pending, (env->rank + 1) % env->size))
		return 1;
	TRY(rondo_barrier(env->comm, NULL));
	world_meet(env, env->size);
	if (env->rank == 1)
		raise(SIGKILL);
	return expect_all(env, &pending, RONDO_DIED, "rank 1");
}

Test(tagged_ends, come_with_the_death_of_a_rank, .timeout = 60)
{
	for (int size = 2; size <= 3 && !ONLY_THREADS; size++)
		for (int tcp = 0; tcp < 2; tcp++) {
			struct world world = {
				.size = size, .transport = tcp ? "tcp" : "shm", .quiet = true
			};
			struct rank_outcome outcomes[WORLD_MAX];

			cr_assert_eq(world_run(&world, dies, NULL, outcomes), 1);
			cr_assert_eq(outcomes[1].status, 128 + SIGKILL);
			cr_assert_eq(outcomes[0].status, 0, "%s", outcomes[0].text);
		}
}

/* The end of a message begins the next, whatever it was. */
struct again {
	rondo_request *next;
	int error, start;
};

static void start_again(void *argument, int error)
{
	struct again *again = argument;

	again->error = error;
	again->start = rondo_request_start(again->next, NULL, NULL);
}

static int starts_while_leaving(struct rank_env *env)
{
	struct again again = { 0 };
	rondo_request *request;
	int64_t in[2];

	TRY(rondo_recv_tagged(env->comm, &in[0], 8, RONDO_ANY_SOURCE, 1, &request));
	TRY(rondo_recv_tagged(env->comm, &in[1], 8, RONDO_ANY_SOURCE, 2, &again.next));
	TRY(rondo_request_start(request, start_again, &again));
	TRY(rondo_barrier(env->comm, NULL));
	world_leave(env);
	if (!again.error || again.start != RONDO_LEFT)
		return world_report(env, "ends with %d, starts with %d", again.error, again.start);
	rondo_request_destroy(request);
	rondo_request_destroy(again.next);
	return 0;
}

Test(tagged_ends, begin_nothing_while_their_rank_leaves, .timeout = 60)
{
	world_try(1, "shm", starts_while_leaving);
}

/* Messages that a rank sent before it left are received; a later receive from it fails. So does one
   from a rank that never sent anything. */
static int leaves(struct rank_env *env)
{
	int leaver = env->size - 1, used = env->world->memory != REGISTERED;
	int64_t out[3] = { 5, 6, 7 }, in[3] = { 0 };
	rondo_comm *other;
	int wrong = world_second_comm(env, &other);

	if (wrong)
		return wrong;
	if (env->rank == 0 && used)
		TRY(receive_one(env->comm, in, 8, leaver, 4));
	if (env->rank == leaver) {
		for (int i = 0; i < 3 && used; i++)
			TRY(send_one(env->comm, &out[i], 8, 0, 4));
		TRY(world_leave(env));
	}
	TRY(rondo_barrier(other, NULL));
	if (env->rank == 0) {
		rondo_request *request;

		for (int i = 1; i < 3 && used; i++)
			TRY(receive_one(env->comm, &in[i], 8, leaver, 4));
		if (used && (in[0] != 5 || in[1] != 6 || in[2] != 7))
			return world_report(env, "%lld", (long long)in[1]);
		TRY(begin_receive(env->comm, in, 8, leaver, 4, &request));
		EXPECT_ERROR(rondo_request_wait(request, WAIT_MS), RONDO_LEFT, "left");
		rondo_request_destroy(request);
	}
	TRY(rondo_barrier(other, NULL));
	TRY(rondo_comm_destroy(other));
	/* The rank that took no part learns of the failure here, or not at all. */
	world_leave(env);
	return 0;
}

Test(tagged_ends, come_when_the_peer_leaves, .timeout = 60)
{
	static const char *const transports[] = { "shm", "tcp" };

	for (int i = 0; i < 8; i++) {
		struct world world = { .size = 2 + i / 4,
			.transport = transports[i % 2],
			.threads = ONLY_THREADS,
			.memory = i / 2 % 2 ? REGISTERED : MALLOCED };

		cr_assert_eq(world_run(&world, leaves, NULL, NULL), 0, "%d", i);
	}
}

/* Rank 1 sends to rank 2, which needs no link, once rank 0's process has ended. */
static int sends_without_rank_0(struct rank_env *env)
{
	rondo_request *request;

	TRY(rondo_barrier(env->comm, NULL));
	if (env->rank == 0) {
		TRY(world_leave(env));
		return 0;
	}
	while (!rd_control_is_unattended(env->comm->control))
		sched_yield();
	if (env->rank == 1) {
		TRY(rondo_comm_set_timeout(env->comm, 300));
		TRY(begin_send(env->comm, "x", 1, 2, 4, &request));
		EXPECT_ERROR(rondo_request_wait(request, WAIT_MS), RONDO_UNREACHABLE,
			"rank 1 has no link of tagged messages to rank 2 after 300 ms: rank 0");
		rondo_request_destroy(request);
	}
	world_meet(env, env->size - 1);
	return 0;
}

Test(tagged_ends, come_without_rank_0_where_the_peer_opens_no_link, .timeout = 60)
{
	for (int tcp = 0; tcp < 2 && !ONLY_THREADS; tcp++) {
		struct world world = { .size = 3, .transport = tcp ? "tcp" : "shm" };

		cr_assert_eq(world_run(&world, sends_without_rank_0, NULL, NULL), 0);
	}
}

/* Rank 1 receives from any source, and rank 2 leaves, too, after it has sent or not. */
static int receives_without_senders(struct rank_env *env)
{
	bool used = env->world->memory != REGISTERED;
	rondo_request *request;
	char in[2] = "";

	TRY(rondo_barrier(env->comm, NULL));
	TRY(rondo_comm_set_timeout(env->comm, 300));
	if (env->rank == 1)
		TRY(begin_receive(env->comm, &in[0], 1, RONDO_ANY_SOURCE, 4, &request));
	if (env->rank == 1 && used)
		TRY(end(request));
	if (env->rank == 1 && used)
		TRY(begin_receive(env->comm, &in[1], 1, RONDO_ANY_SOURCE, 4, &request));
	if (env->rank == 2 && used)
		TRY(send_one(env->comm, "x", 1, 1, 4));
	world_meet(env, env->size);
	while (env->rank > 0 && !rd_control_is_unattended(env->comm->control))
		sched_yield();
	if (env->rank == 1) {
		EXPECT_ERROR(rondo_request_wait(request, WAIT_MS),
			used ? RONDO_BROKEN : RONDO_UNREACHABLE,
			used ? "rank 1 receives from any source, and has had a link of tagged "
			       "messages to no rank for 300 ms; the last, to rank 2: "
			     : "rank 1 receives from any source, and has a link of tagged "
			       "messages to no rank after 300 ms: rank 0");
		rondo_request_destroy(request);
		return used == (in[0] == 'x') ? 0 : world_report(env, "%d", in[0]);
	}
	TRY(world_leave(env));
	return 0;
}

Test(tagged_ends, come_without_rank_0_where_no_sender_is_left, .timeout = 60)
{
	for (int i = 0; i < 4 && !ONLY_THREADS; i++) {
		struct world world = { .size = 3,
			.transport = i % 2 ? "tcp" : "shm",
			.memory = i / 2 ? REGISTERED : MALLOCED };

		cr_assert_eq(world_run(&world, receives_without_senders, NULL, NULL), 0, "%d", i);
	}
}

/* This rank leaves: its own messages end. */
static int leaves_itself(struct rank_env *env)
{
	struct pending pending;
	rondo_comm *other;
	int wrong = world_second_comm(env, &other);

	if (wrong || begin_all(env, &pending, env->rank))
		return 1;
	TRY(rondo_barrier(other, NULL));
	TRY(world_leave(env));
	EXPECT_ERROR(rondo_request_test(pending.from_one), RONDO_LEFT, "left");
	EXPECT_ERROR(rondo_request_test(pending.from_any), RONDO_LEFT, "left");
	EXPECT_ERROR(rondo_request_wait(pending.send, -1), RONDO_LEFT, "left");
	rondo_request_destroy(pending.from_one);
	rondo_request_destroy(pending.from_any);
	rondo_request_destroy(pending.send);
	free(pending.out);
	TRY(rondo_comm_destroy(other));
	return 0;
}

Test(tagged_ends, come_when_this_rank_leaves, .timeout = 60)
{
	on_all_ways(2, leaves_itself);
}

static void *wait_for(void *request)
{
	return (void *)(intptr_t)rondo_request_wait(request, WAIT_MS);
}

/* Threads wait meanwhile, one of which moves messages: each is out before the comm is gone. */
static int leaves_waits(struct rank_env *env)
{
	rondo_request *requests[4];
	pthread_t threads[4];
	rondo_comm *comm;
	char in;

	for (int round = 0; round < 20; round++) {
		int waiting = 0;

		TRY(rondo_comm_duplicate(env->comm, &comm));
		for (int i = 0; i < 4; i++) {
			TRY(begin_receive(comm, &in, 1, env->rank, 4, &requests[i]));
			pthread_create(&threads[i], NULL, wait_for, requests[i]);
		}
		while (waiting < 4) {
			struct rd_mailbox *mailbox = atomic_load(&comm->mailbox);

			sched_yield();
			rd_mailbox_enter(mailbox);
			waiting = mailbox->driver->waiters;
			rd_mailbox_exit(mailbox);
		}
		TRY(rondo_comm_destroy(comm));
		for (int i = 0; i < 4; i++) {
			void *end_of_wait;

			pthread_join(threads[i], &end_of_wait);
			if ((intptr_t)end_of_wait != RONDO_LEFT)
				return world_report(
					env, "wait %d: %d", i, (int)(intptr_t)end_of_wait);
			rondo_request_destroy(requests[i]);
		}
	}
	return 0;
}

Test(tagged_ends, come_to_threads_that_wait_when_this_rank_leaves, .timeout = 60)
{
	on_all_ways(2, leaves_waits);
}

/* A short message, and an offer. */
static int too_long(struct rank_env *env)
{
	size_t size = env->world->channels == 2 ? 100000 : 9;
	char *data = calloc(size, 1);
	rondo_request *request;

	if (env->rank == 0)
		TRY(begin_send(env->comm, data, size, 1, 4, &request));
	else
		TRY(begin_receive(env->comm, data, 8, 0, 4, &request));
	EXPECT_ERROR(env->rank == 0 ? rondo_barrier(env->comm, NULL)
				    : rondo_request_wait(request, WAIT_MS),
		RONDO_MISMATCH, "with tag 4, and rank 1 receives at most 8");
	rondo_request_destroy(request);
	free(data);
	return 0;
}

Test(tagged_ends, come_with_a_message_that_is_too_long, .timeout = 60)
{
	for (int channels = 1; channels <= 2; channels++) {
		struct world world = {
			.size = 2, .transport = "shm", .channels = channels, .threads = ONLY_THREADS
		};

		cr_assert_eq(world_run(&world, too_long, NULL, NULL), 0);
		world.transport = "tcp";
		cr_assert_eq(world_run(&world, too_long, NULL, NULL), 0);
	}
}

/* Longer than the bound of calls. */
static int waits_without_bound(struct rank_env *env)
{
	rondo_request *request;
	char in = 0, out = 9;

	TRY(begin_receive(env->comm, &in, 1, 1 - env->rank, 4, &request));
	if (rondo_request_wait(request, 3 * env->world->call_timeout_ms) != RONDO_PENDING)
		return world_report(env, "a receive without a message ended");
	/* The other rank may come later than that. */
	TRY(rondo_comm_set_timeout(env->comm, 0));
	TRY(rondo_barrier(env->comm, NULL));
	TRY(send_one(env->comm, &out, 1, 1 - env->rank, 4));
	TRY(end(request));
	return in == 9 ? 0 : world_report(env, "%d", in);
}

Test(tagged_ends, are_waited_for_without_a_bound, .timeout = 60)
{
	WORLD_TRY(waits_without_bound, .size = 2, .threads = ONLY_THREADS, .call_timeout_ms = 300);
}

/* ---- Refusals ------------------------------------------------------------------------------- */

static int refusals(struct rank_env *env)
{
	rondo_request *request = (rondo_request *)env, *calls;
	char byte = 0;
	int status;
	pid_t child;

	EXPECT_ERROR(rondo_send_tagged(NULL, &byte, 1, 0, 0, &request), RONDO_INVALID, "comm");
	if (request)
		return world_report(env, "an error left a request");
	EXPECT_ERROR(rondo_send_tagged(env->comm, &byte, 1, RONDO_ANY_SOURCE, 0, &request),
		RONDO_INVALID, "no rank -1");
	EXPECT_ERROR(rondo_recv_tagged(env->comm, &byte, 1, env->size, 0, &request), RONDO_INVALID,
		"no rank 2");
	EXPECT_ERROR(rondo_recv_tagged(env->comm, NULL, 1, 0, 0, &request), RONDO_INVALID, "NULL");
	EXPECT_ERROR(rondo_recv_tagged(env->comm, &byte, 1, 0, 0, NULL), RONDO_INVALID, "request");
	TRY(rondo_recv_tagged(env->comm, &byte, 1, 1 - env->rank, 0, &request));
	EXPECT_ERROR(rondo_request_source(request, NULL, NULL), RONDO_INVALID, "start");
	TRY(rondo_request_start(request, NULL, NULL));
	if (rondo_request_source(request, NULL, NULL) != RONDO_PENDING)
		return world_report(env, "a source without a message");
	EXPECT_ERROR(rondo_request_start(request, NULL, NULL), RONDO_INVALID, "under way");
	TRY(rondo_group_start());
	TRY(rondo_barrier(env->comm, NULL));
	TRY(rondo_group_prepare(&calls));
	EXPECT_ERROR(rondo_request_cancel(calls), RONDO_INVALID, "no receive");
	EXPECT_ERROR(rondo_request_source(calls, NULL, NULL), RONDO_INVALID, "no message");
	rondo_request_destroy(calls);
	child = ONLY_THREADS ? 0 : fork();
	if (child == 0 && !ONLY_THREADS) {
		bool refused = rondo_request_wait(request, -1) == RONDO_INVALID &&
			       rondo_request_cancel(request) == RONDO_INVALID;

		rondo_request_destroy(request);
		rondo_comm_destroy(env->comm);
		_exit(refused ? 0 : 1);
	}
	if (child > 0 && (waitpid(child, &status, 0) != child || status))
		return world_report(env, "the child: %d", status);
	TRY(rondo_barrier(env->comm, NULL));
	TRY(send_one(env->comm, "x", 1, 1 - env->rank, 0));
	TRY(end(request));
	return byte == 'x' ? 0 : world_report(env, "%d", byte);
}

Test(tagged_ends, of_wrong_arguments_come_at_once, .timeout = 60)
{
	struct world world = { .size = 2, .transport = "shm", .threads = ONLY_THREADS };

	cr_assert_eq(world_run(&world, refusals, NULL, NULL), 0);
	world.transport = "tcp";
	cr_assert_eq(world_run(&world, refusals, NULL, NULL), 0);
}
