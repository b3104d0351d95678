/* ctest label: threads */
/* Tagged messages beside other work: calls, other comms, other threads. */
#include <criterion/criterion.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "descriptors.h"
#include "tagged.h"

#define LARGE 600000

/* ---- Calls ---------------------------------------------------------------------------------- */

/* Each rank makes the calls and the messages in an order of its own. */
static int beside_calls(struct rank_env *env)
{
	int right = (env->rank + 1) % env->size, left = (env->rank + env->size - 1) % env->size;
	char *out = calloc(LARGE, 1), *in = calloc(LARGE, 1);
	float values[5000];

	for (int round = 0; round < 20; round++) {
		rondo_request *send, *receive;
		bool first = (round + env->rank) % 2;

		memset(out, round + env->rank, LARGE);
		if (first)
			TRY(begin_receive(env->comm, in, LARGE, left, round, &receive));
		TRY(begin_send(env->comm, out, round % 3 ? LARGE : 9, right, round, &send));
		if (world_sum(env, values, 5000))
			return 1;
		if (!first)
			TRY(begin_receive(env->comm, in, LARGE, left, round, &receive));
		if (round % 2)
			TRY(rondo_barrier(env->comm, NULL));
		TRY(end(receive));
		TRY(end(send));
		if (in[0] != (char)(round + left) || in[round % 3 ? LARGE - 1 : 8] != in[0])
			return world_report(env, "round %d: %d", round, in[0]);
	}
	free(out);
	free(in);
	return 0;
}

Test(tagged_beside, calls_of_the_comm, .timeout = 60)
{
	on_all_ways(3, beside_calls);
}

/* A rank is in a call that the other makes once it has the message. */
static int during_a_call(struct rank_env *env)
{
	rondo_request *request;
	char *data = calloc(LARGE, 1);

	if (env->rank == 0) {
		data[LARGE - 1] = 3;
		TRY(begin_send(env->comm, data, LARGE, 1, 1, &request));
		TRY(rondo_barrier(env->comm, NULL));
		TRY(end(request));
	} else {
		TRY(receive_one(env->comm, data, LARGE, 0, 1));
		TRY(rondo_barrier(env->comm, NULL));
	}
	if (data[LARGE - 1] != 3)
		return world_report(env, "%d", data[LARGE - 1]);
	free(data);
	return 0;
}

Test(tagged_beside, a_call_that_waits_for_them, .timeout = 60)
{
	on_all_ways(2, during_a_call);
}

/* The first message to a rank that is in a call, and has sent none: its link opens meanwhile. */
static int to_a_call(struct rank_env *env)
{
	int32_t value = 6 * (env->rank == 0);

	if (env->rank == 0)
		TRY(send_one(env->comm, &value, sizeof(value), 1, 1));
	TRY(rondo_barrier(env->comm, NULL));
	if (env->rank == 1)
		TRY(receive_one(env->comm, &value, sizeof(value), 0, 1));
	return env->rank > 1 || value == 6 ? 0 : world_report(env, "%d", value);
}

Test(tagged_beside, a_call_that_the_receiver_makes_first, .timeout = 60)
{
	on_all_ways(2, to_a_call);
}

/* ---- Other comms ---------------------------------------------------------------------------- */

/* The same source and tag in both, received in the other order; and in a group without rank 0. */
static int of_other_comms(struct rank_env *env)
{
	int right = (env->rank + 1) % env->size, left = (env->rank + env->size - 1) % env->size;
	int32_t out[2] = { 100 + env->rank, 200 + env->rank }, in[2] = { 0 }, third = 0;
	rondo_comm *copy, *part;
	rondo_request *sends[2];

	TRY(rondo_comm_duplicate(env->comm, &copy));
	TRY(begin_send(env->comm, &out[0], 4, right, 7, &sends[0]));
	TRY(begin_send(copy, &out[1], 4, right, 7, &sends[1]));
	TRY(receive_one(copy, &in[1], 4, RONDO_ANY_SOURCE, 7));
	TRY(receive_one(env->comm, &in[0], 4, left, 7));
	TRY(end(sends[0]));
	TRY(end(sends[1]));
	TRY(rondo_comm_split(env->comm, env->rank > 0 ? 1 : -1, 0, &part));
	if (part) {
		TRY(begin_send(part, &out[0], 4, 2 - env->rank, 7, &sends[0]));
		TRY(receive_one(part, &third, 4, 2 - env->rank, 7));
		TRY(end(sends[0]));
		TRY(rondo_comm_destroy(part));
	}
	TRY(rondo_comm_destroy(copy));
	if (in[0] != 100 + left || in[1] != 200 + left ||
		third != (env->rank > 0 ? 103 - env->rank : 0))
		return world_report(env, "%d, %d, %d", in[0], in[1], third);
	return 0;
}

Test(tagged_beside, messages_of_other_comms, .timeout = 60)
{
	on_all_ways(3, of_other_comms);
}

/* ---- Other threads -------------------------------------------------------------------------- */

#define THREADS 4
#define ROUNDS 100

struct talker {
	struct rank_env *env;
	int tag, wrong;
};

static int talk(struct talker *talker)
{
	struct rank_env *env = talker->env;
	int peer = 1 - env->rank;
	int32_t *out = calloc(4000, 4), *in = calloc(4000, 4);

	for (int round = 0; round < ROUNDS; round++) {
		size_t size = round % 4 ? 4 : 16000;
		rondo_request *send;

		out[0] = 1000 * talker->tag + round;
		TRY(begin_send(env->comm, out, size, peer, talker->tag, &send));
		TRY(receive_one(env->comm, in, size, peer, talker->tag));
		TRY(end(send));
		if (in[0] != out[0])
			return world_report(env, "tag %d: %d", talker->tag, in[0]);
	}
	free(out);
	free(in);
	return 0;
}

static void *run_talker(void *argument)
{
	struct talker *talker = argument;

	talker->wrong = talk(talker);
	return NULL;
}

static int of_other_threads(struct rank_env *env)
{
	struct talker talkers[THREADS];
	pthread_t threads[THREADS];
	float value;
	int wrong = 0;

	for (int i = 0; i < THREADS; i++) {
		talkers[i] = (struct talker){ env, i, 0 };
		pthread_create(&threads[i], NULL, run_talker, &talkers[i]);
	}
	for (int i = 0; i < 20; i++)
		wrong |= world_sum(env, &value, 1);
	for (int i = 0; i < THREADS; i++) {
		pthread_join(threads[i], NULL);
		wrong |= talkers[i].wrong;
	}
	return wrong;
}

Test(tagged_beside, messages_of_other_threads, .timeout = 60)
{
	on_all_ways(2, of_other_threads);
}

/* ---- Descriptors ---------------------------------------------------------------------------- */

/* Further comms that send over shm need none. */
static int without_descriptors(struct rank_env *env)
{
	int32_t out = 5, in = 0;
	rondo_comm *copies[8];
	struct descriptors before, after;

	for (int i = 0; i < 8; i++) {
		rondo_request *send;

		TRY(rondo_comm_duplicate(env->comm, &copies[i]));
		TRY(begin_send(copies[i], &out, 4, 1 - env->rank, 7, &send));
		TRY(receive_one(copies[i], &in, 4, 1 - env->rank, 7));
		TRY(end(send));
		TRY(rondo_barrier(copies[i], NULL));
		if (i == 1)
			before = descriptors_count();
	}
	after = descriptors_count();
	if (!descriptors_are_of(&after, &before, 0))
		return descriptors_report(env, "with comms", &before, &after);
	for (int i = 0; i < 8; i++)
		TRY(rondo_comm_destroy(copies[i]));
	return 0;
}

Test(tagged_beside, no_descriptor_of_their_own_over_shm, .timeout = 60)
{
	if (!ONLY_THREADS)
		world_try(2, "shm", without_descriptors);
}
