/* ctest label: threads */
/* Sends and receives, alone, in groups and among collectives. */
#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>

#include "world.h"

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
			return world_report(env, "round %d: got %d", round, token);
	}
	return 0;
}

Test(transfers, in_a_group_go_both_ways_at_once, .timeout = 60)
{
	world_try(2, "shm", pass_round);
	world_try(4, "tcp", pass_round);
	world_try(5, "mixed", pass_round);
}

static int call_badly(struct rank_env *env)
{
	float number = 0;

	if (rondo_send(env->comm, &number, 1, RONDO_F32, 7, NULL) != RONDO_INVALID ||
		strcmp(rondo_last_error(), "send: rank 7 is not in 0..1") != 0)
		return world_report(env, "%s", rondo_last_error());
	if (rondo_recv(env->comm, &number, 1, RONDO_F32, -1, NULL) != RONDO_INVALID ||
		strcmp(rondo_last_error(), "recv: rank -1 is not in 0..1") != 0)
		return world_report(env, "%s", rondo_last_error());
	if (rondo_send(NULL, &number, 1, RONDO_F32, 0, NULL) != RONDO_INVALID ||
		strcmp(rondo_last_error(), "send: comm is NULL") != 0)
		return world_report(env, "%s", rondo_last_error());
	if (rondo_recv(env->comm, NULL, 1, RONDO_F32, 0, NULL) != RONDO_INVALID ||
		strcmp(rondo_last_error(), "recv: the buffer is NULL") != 0)
		return world_report(env, "%s", rondo_last_error());
	return 0;
}

Test(transfers, that_are_refused_are_called_send_and_recv, .timeout = 60)
{
	world_try(2, "shm", call_badly);
}

Test(transfers, of_a_rank_to_itself_are_copies, .timeout = 60)
{
	world_try(1, NULL, pass_round);
}

#define SELVES 40

/* The k-th send goes to the k-th receive, whichever come first, and other calls run in between. */
static int pass_to_itself(struct rank_env *env)
{
	int out[SELVES], in[SELVES] = { 0 }, sum = 0, one = 1;

	for (int i = 0; i < SELVES; i++)
		out[i] = 1000 * env->rank + i;
	for (int burst = 1; burst <= SELVES; burst++) {
		memset(in, 0, sizeof(in));
		TRY(rondo_group_start());
		for (int i = 0; i < SELVES; i++) {
			TRY(rondo_send(env->comm, &out[i], 1, RONDO_I32, env->rank, NULL));
			if (i == burst)
				TRY(rondo_all_reduce(
					env->comm, &one, &sum, 1, RONDO_I32, RONDO_SUM, NULL));
			for (int k = i + 1 - burst; i % burst == burst - 1 && k <= i; k++)
				TRY(rondo_recv(env->comm, &in[k], 1, RONDO_I32, env->rank, NULL));
		}
		for (int k = SELVES - SELVES % burst; k < SELVES; k++)
			TRY(rondo_recv(env->comm, &in[k], 1, RONDO_I32, env->rank, NULL));
		TRY(rondo_group_end());
		if (memcmp(in, out, sizeof(in)) != 0 || (burst < SELVES && sum != env->size))
			return world_report(env, "bursts of %d: wrong values", burst);
	}
	TRY(rondo_group_start());
	TRY(rondo_recv(env->comm, in, 1, RONDO_I32, env->rank, NULL));
	if (rondo_group_end() != RONDO_INVALID || !strstr(rondo_last_error(), "no counterpart"))
		return world_report(env, "half a transfer: %s", rondo_last_error());
	return 0;
}

Test(transfers, of_a_rank_to_itself_join_in_their_order, .timeout = 60)
{
	world_try(2, "shm", pass_to_itself);
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
	return wrong < 0 ? 0 : world_report(env, "element %d is wrong", wrong);
}

Test(transfers, keep_their_order_however_they_are_grouped, .timeout = 60)
{
	world_try(2, "shm", cross_long);
	world_try(2, "tcp", cross_long);
}

/* Each rank sends to each, in different orders and sizes, among collectives. */
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
			return world_report(env, "rank %d's bytes are wrong", i);
	free(out);
	free(in);
	return sum == size ? 0 : world_report(env, "the sum is %d", sum);
}

Test(transfers, and_collectives_share_a_group, .timeout = 60)
{
	world_try(3, "shm", storm);
	world_try(4, "tcp", storm);
	world_try(4, "mixed", storm);
}
