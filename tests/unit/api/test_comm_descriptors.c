/* ctest label: threads */
/* Descriptors of comms that are made from one comm. */
#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>

#include "descriptors.h"
#include "world.h"

#define COMMS 12

static int use(struct rank_env *env, rondo_comm *comm)
{
	int size = rondo_comm_size(comm), rank = rondo_comm_rank(comm), all[WORLD_MAX];
	int sum = 1 << rank;

	TRY(rondo_all_reduce(comm, &sum, &sum, 1, RONDO_I32, RONDO_SUM, NULL));
	if (sum != (1 << size) - 1)
		return world_report(env, "the sum is %d", sum);
	/* A link from each to each. */
	TRY(rondo_all_gather(comm, &rank, all, 1, RONDO_I32, NULL));
	for (int i = 0; i < size; i++)
		if (all[i] != i)
			return world_report(env, "block %d is %d", i, all[i]);
	return 0;
}

/* ---- One after the other --------------------------------------------------------------------- */

static int make_many(struct rank_env *env, int links_over_tcp)
{
	rondo_comm *comms[COMMS];
	struct descriptors before, after;

	/* Opens every link of the comm, and so every connection. */
	for (int peer = 1; peer < env->size; peer++) {
		int to = (env->rank + peer) % env->size;
		int from = (env->rank + env->size - peer) % env->size, sent = 1, received;

		TRY(rondo_group_start());
		TRY(rondo_send(env->comm, &sent, 1, RONDO_I32, to, NULL));
		TRY(rondo_recv(env->comm, &received, 1, RONDO_I32, from, NULL));
		TRY(rondo_group_end());
	}
	/* The first of each kind make the means to meet, which stay. */
	for (int i = 0; i < 2; i++) {
		TRY(rondo_comm_split(env->comm, 0, i % 2 ? -env->rank : env->rank, &comms[i]));
		TRY(rondo_barrier(comms[i], NULL));
	}
	before = descriptors_count();
	for (int i = 2; i < COMMS; i++)
		TRY(rondo_comm_split(env->comm, 0, i % 2 ? -env->rank : env->rank, &comms[i]));
	for (int i = 0; i < COMMS; i++)
		if (use(env, comms[i]))
			return 1;
	TRY(rondo_barrier(env->comm, NULL));
	after = descriptors_count();
	if (!descriptors_are_of(&after, &before, (COMMS - 2) * links_over_tcp))
		return descriptors_report(env, "with comms", &before, &after);
	for (int i = 0; i < COMMS; i++)
		TRY(rondo_comm_destroy(comms[i]));
	TRY(rondo_barrier(env->comm, NULL));
	after = descriptors_count();
	/* None leaves before: its watcher would get the memory of the next rank meanwhile. */
	TRY(rondo_barrier(env->comm, NULL));
	return descriptors_are_of(&after, &before, -2 * links_over_tcp)
		       ? 0
		       : descriptors_report(env, "without them", &before, &after);
}

static int make_many_over_shm(struct rank_env *env)
{
	return make_many(env, 0);
}

static int make_many_over_tcp(struct rank_env *env)
{
	return make_many(env, 1);
}

Test(comm_descriptors, are_those_of_the_first_comm_over_shm, .timeout = 60)
{
	world_try(2, "shm", make_many_over_shm);
	world_try(4, "shm", make_many_over_shm);
}

/* Within a host, where ranks could use tcp, too. */
Test(comm_descriptors, are_those_of_the_first_comm_by_default, .timeout = 60)
{
	world_try(2, NULL, make_many_over_shm);
	world_try(4, NULL, make_many_over_shm);
}

Test(comm_descriptors, are_an_epoll_and_one_a_link_and_channel_over_tcp, .timeout = 60)
{
	setenv("RONDO_CHANNELS", "1", 1);
	world_try(2, "tcp", make_many_over_tcp);
}

/* ---- In any order ---------------------------------------------------------------------------- */

#define STEPS 120

/* A group of all but one rank, which gets none. */
static int make_group(struct rank_env *env, int absent, int tag, rondo_comm **made)
{
	int ranks[WORLD_MAX], size = 0;

	for (int rank = env->size - 1; rank >= 0; rank--)
		if (rank != absent)
			ranks[size++] = rank;
	*made = NULL;
	if (env->rank != absent)
		TRY(rondo_comm_create_group(env->comm, ranks, size, tag, made));
	return 0;
}

static int make(struct rank_env *env, int choice, int step, rondo_comm **made)
{
	if (choice % 3 == 0)
		TRY(rondo_comm_duplicate(env->comm, made));
	else if (choice % 3 == 1)
		TRY(rondo_comm_split(env->comm, env->rank % 2, -env->rank, made));
	else
		return make_group(env, choice / 3 % env->size, step, made);
	return 0;
}

static int change_one(
	struct rank_env *env, unsigned *seed, int step, rondo_comm **comms, bool *made)
{
	int at = rand_r(seed) % COMMS, choice = rand_r(seed);
	bool uses = rand_r(seed) % 4 > 0;

	if (!made[at]) {
		made[at] = true;
		return make(env, choice, step, &comms[at]);
	}
	if (comms[at] && uses && use(env, comms[at]))
		return 1;
	if (choice % 2 == 0)
		return 0;
	made[at] = false;
	if (comms[at])
		TRY(rondo_comm_destroy(comms[at]));
	comms[at] = NULL;
	return 0;
}

static int make_and_destroy(struct rank_env *env)
{
	unsigned seed = 3u * (unsigned)env->size;
	rondo_comm *comms[COMMS] = { NULL };
	bool made[COMMS] = { false };

	for (int step = 0; step < STEPS; step++)
		if (change_one(env, &seed, step, comms, made))
			return 1;
	/* The comm that all come from goes before some of them. */
	for (int i = 0; i < COMMS; i++) {
		if (i == COMMS / 2) {
			TRY(world_leave(env));
		}
		if (comms[i] && use(env, comms[i]))
			return 1;
		if (comms[i])
			TRY(rondo_comm_destroy(comms[i]));
	}
	return 0;
}

Test(comm_descriptors, comms_come_and_go_in_any_order, .timeout = 120)
{
	struct world threads = { .size = 3, .threads = true };

	world_try(2, "shm", make_and_destroy);
	world_try(4, "shm", make_and_destroy);
	world_try(4, "mixed", make_and_destroy);
	world_try(4, "tcp", make_and_destroy);
	cr_assert_eq(world_run(&threads, make_and_destroy, NULL, NULL), 0);
}
