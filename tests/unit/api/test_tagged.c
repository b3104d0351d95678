/* ctest label: threads */
/* Tagged messages: which message a receive takes, in whatever order both sides begin. */
#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>

#include "tagged.h"

/* ---- Tags ----------------------------------------------------------------------------------- */

/* Short messages and long ones, received in the opposite order of their sends. */
static int in_opposite_order(struct rank_env *env)
{
	enum { TAGS = 12 };
	static const size_t sizes[] = { 0, 1, 4, 40, 4096, 4097, 200000, 1200000 };
	int peer = 1 - env->rank, kinds = sizeof(sizes) / sizeof(*sizes);
	rondo_request *sends[TAGS], *receives[TAGS];
	char *out[TAGS], *in[TAGS];

	for (int i = 0; i < TAGS; i++) {
		size_t size = sizes[i % kinds];

		out[i] = malloc(size + 1);
		in[i] = calloc(size + 1, 1);
		memset(out[i], 1 + i + 20 * env->rank, size);
		TRY(begin_send(env->comm, out[i], size, peer, i - 3, &sends[i]));
	}
	for (int i = TAGS; i-- > 0;) {
		size_t size = sizes[i % kinds], length = 77;
		int source = -1;

		TRY(begin_receive(env->comm, in[i], size + 1, peer, i - 3, &receives[i]));
		TRY(rondo_request_wait(receives[i], WAIT_MS));
		TRY(rondo_request_source(receives[i], &source, &length));
		if (source != peer || length != size)
			return world_report(env, "tag %d: %zu bytes of %d", i, length, source);
		for (size_t k = 0; k < size; k++)
			if (in[i][k] != 1 + i + 20 * peer)
				return world_report(env, "tag %d: byte %zu", i, k);
		if (in[i][size])
			return world_report(env, "tag %d: beyond its end", i);
		rondo_request_destroy(receives[i]);
	}
	for (int i = 0; i < TAGS; i++) {
		TRY(end(sends[i]));
		free(out[i]);
		free(in[i]);
	}
	return 0;
}

Test(tagged, are_received_in_any_order, .timeout = 60)
{
	on_all_ways(2, in_opposite_order);
}

/* Those of one sender and tag: in order, though lengths differ. */
static int in_order(struct rank_env *env)
{
	enum { MESSAGES = 60, LONGEST = 9000 };
	int peer = 1 - env->rank;
	int32_t(*out)[LONGEST / 4] = calloc(MESSAGES, sizeof(*out)), in[LONGEST / 4];
	rondo_request *sends[MESSAGES];

	for (int i = 0; i < MESSAGES; i++) {
		out[i][0] = i;
		TRY(begin_send(env->comm, out[i], i % 3 ? 4 : LONGEST, peer, 5, &sends[i]));
	}
	for (int i = 0; i < MESSAGES; i++) {
		TRY(receive_one(env->comm, in, sizeof(in), i % 2 ? RONDO_ANY_SOURCE : peer, 5));
		if (in[0] != i)
			return world_report(env, "message %d is %d", i, in[0]);
	}
	for (int i = 0; i < MESSAGES; i++)
		TRY(end(sends[i]));
	free(out);
	return 0;
}

Test(tagged, of_one_sender_and_tag_come_in_order, .timeout = 60)
{
	on_all_ways(2, in_order);
}

/* ---- Any source ----------------------------------------------------------------------------- */

static int from_any(struct rank_env *env)
{
	enum { ROUNDS = 30 };
	int seen[3] = { 0 };

	for (int round = 0; round < ROUNDS && env->rank > 0; round++) {
		int32_t mine[2000] = { env->rank, round };

		TRY(send_one(env->comm, mine, round % 2 ? sizeof(mine) : 8, 0, 9));
	}
	for (int i = 0; i < 2 * ROUNDS && env->rank == 0; i++) {
		rondo_request *request;
		int32_t got[2000];
		int source = -1;

		TRY(begin_receive(env->comm, got, sizeof(got), RONDO_ANY_SOURCE, 9, &request));
		TRY(rondo_request_wait(request, WAIT_MS));
		TRY(rondo_request_source(request, &source, NULL));
		rondo_request_destroy(request);
		if (source < 1 || source > 2 || got[0] != source || got[1] != seen[source])
			return world_report(env, "%d: %d of %d", source, got[1], got[0]);
		seen[source]++;
	}
	return 0;
}

Test(tagged, are_received_from_any_source, .timeout = 60)
{
	on_all_ways(3, from_any);
}

/* ---- Without order -------------------------------------------------------------------------- */

#define LARGE 1200000

static int both_send_first(struct rank_env *env)
{
	int peer = 1 - env->rank;
	char *out = malloc(LARGE), *in = malloc(LARGE);

	for (int round = 0; round < 10; round++) {
		rondo_request *send;

		memset(out, round + env->rank, LARGE);
		TRY(begin_send(env->comm, out, LARGE, peer, 1, &send));
		TRY(receive_one(env->comm, in, LARGE, peer, 1));
		TRY(end(send));
		if (in[0] != round + peer || memcmp(in, in + 1, LARGE - 1) != 0)
			return world_report(env, "round %d: %d", round, in[0]);
	}
	free(out);
	free(in);
	return 0;
}

Test(tagged, may_be_sent_by_both_ranks_first, .timeout = 60)
{
	on_all_ways(2, both_send_first);
}

/* Each rank waits for the last one that the other began first. */
static int thousand(struct rank_env *env)
{
	enum { COUNT = 1000, WORDS = 1500 };
	int32_t(*out)[WORDS] = calloc(COUNT, sizeof(*out));
	int32_t(*in)[WORDS] = calloc(COUNT, sizeof(*in));
	rondo_request *sends[COUNT], *receives[COUNT];

	for (int i = 0; i < COUNT; i++) {
		int peer = (env->rank + 1 + i % (env->size - 1)) % env->size;

		out[i][0] = i + 10000 * env->rank;
		TRY(begin_send(env->comm, out[i], i % 5 ? 4 : sizeof(out[i]), peer, i, &sends[i]));
	}
	for (int i = COUNT; i-- > 0;) {
		int peer = (env->rank + env->size - 1 - i % (env->size - 1)) % env->size;

		TRY(begin_receive(env->comm, in[i], sizeof(in[i]), peer, i, &receives[i]));
	}
	for (int i = 0; i < COUNT; i++) {
		int peer = (env->rank + env->size - 1 - i % (env->size - 1)) % env->size;

		TRY(end(receives[i]));
		if (in[i][0] != i + 10000 * peer)
			return world_report(env, "message %d: %d", i, in[i][0]);
	}
	for (int i = COUNT; i-- > 0;)
		TRY(end(sends[i]));
	free(out);
	free(in);
	return 0;
}

Test(tagged, may_be_many_at_once, .timeout = 60)
{
	on_all_ways(3, thousand);
}

/* ---- This rank itself ----------------------------------------------------------------------- */

static int to_self(struct rank_env *env)
{
	rondo_request *send, *receive;
	int64_t out = 40 + env->rank, in = 0;
	size_t length = 1;
	int source = -1;

	TRY(begin_send(env->comm, &out, sizeof(out), env->rank, 2, &send));
	if (rondo_request_test(send) != RONDO_PENDING)
		return world_report(env, "a send to itself did not wait for its receive");
	TRY(begin_receive(env->comm, &in, sizeof(in), RONDO_ANY_SOURCE, 2, &receive));
	TRY(rondo_request_test(send));
	TRY(rondo_request_test(receive));
	if (in != out)
		return world_report(env, "%lld", (long long)in);
	/* Both requests once more, in the other order; then no bytes. */
	out++;
	TRY(rondo_request_start(receive, NULL, NULL));
	TRY(rondo_request_start(send, NULL, NULL));
	TRY(end(send));
	TRY(end(receive));
	if (in != out)
		return world_report(env, "again: %lld", (long long)in);
	TRY(begin_receive(env->comm, NULL, 0, env->rank, 2, &receive));
	TRY(send_one(env->comm, NULL, 0, env->rank, 2));
	TRY(rondo_request_wait(receive, WAIT_MS));
	TRY(rondo_request_source(receive, &source, &length));
	rondo_request_destroy(receive);
	return source == env->rank && length == 0 ? 0 : world_report(env, "no bytes: %zu", length);
}

Test(tagged, reach_this_rank_itself, .timeout = 60)
{
	on_all_ways(1, to_self);
	on_all_ways(2, to_self);
}
