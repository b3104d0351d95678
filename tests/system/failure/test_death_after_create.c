/*
 * A rank that dies as soon as its rondo_comm_create() has returned. Others may still be in theirs,
 * which fails then; or their next call does. All name the rank.
 */
#include <criterion/criterion.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>

#include "world.h"

/* The first comm has the ranks meet for the second one. */
static int die_or_name_the_dead(struct rank_env *env)
{
	int victim = *(const int *)env->argument, err = 0;
	rondo_comm *comm = NULL;
	char words[48];
	float sum = 1;

	if (env->create_error)
		return world_report(env, "the first comm: %s", rondo_last_error());
	err = world_second_comm(env, &comm);
	if (env->rank == victim)
		raise(SIGKILL);
	/* It fails, too. */
	world_leave(env);
	snprintf(words, sizeof(words), "RONDO_DIED: rank %d (host ", victim);
	if (err)
		return strstr(env->text, words) ? 0 : err;
	err = rondo_all_reduce(comm, &sum, &sum, 1, RONDO_F32, RONDO_SUM, NULL);
	err = world_expect(env, "the next call", err, RONDO_DIED, words + strlen("RONDO_DIED: "));
	rondo_comm_destroy(comm);
	return err;
}

static void run(int size, const char *transport)
{
	struct world world = { .size = size, .transport = transport, .quiet = true };
	struct rank_outcome outcomes[WORLD_MAX];

	for (int victim = 0; victim < size; victim++) {
		world_run(&world, die_or_name_the_dead, &victim, outcomes);
		for (int rank = 0; rank < size; rank++)
			cr_expect_eq(outcomes[rank].status, rank == victim ? 128 + SIGKILL : 0,
				"%s: rank %d without %d: %s", transport, rank, victim,
				outcomes[rank].text);
	}
}

/* Each run takes its own way: on two cores, a fifth of the others fails in create. */
Test(death_after_create, the_others_name_the_rank_in_create_or_in_the_next_call, .timeout = 120)
{
	for (int i = 0; i < 4; i++) {
		run(4, "shm");
		run(4, "tcp");
	}
}
