/* Slots that are written past the sender's caches: by ranks with a core each alone. */
#include <criterion/criterion.h>
#include <stdlib.h>

#include "comm/comm.h"
#include "comm/plan_cache.h"
#include "tuner/thresholds.h"
#include "world.h"

#define COUNT 100003
/* The shortest message past them. */
#define SHORT_COUNT (RD_PAST_LEAST / sizeof(float))

/* As if the costs came from the comm's parent, whose ranks had a core each. */
static int add_up(struct rank_env *env)
{
	struct rondo_comm *comm = env->comm;
	size_t past_least = env->size > 2 ? SIZE_MAX : RD_PAST_LEAST;
	float *values = malloc(COUNT * sizeof(*values));

	comm->costs.links[RD_NEAR].past_caches = 1;
	for (size_t i = 0; i < COUNT; i++)
		values[i] = (float)(i % 1000 + (size_t)env->rank);
	TRY(rondo_all_reduce(comm, values, values, COUNT, RONDO_F32, RONDO_SUM, NULL));
	for (size_t i = 0; i < COUNT; i++)
		if (values[i] !=
			(float)(env->size * (int)(i % 1000) + env->size * (env->size - 1) / 2))
			return world_report(env, "sum %zu is %g", i, values[i]);
	free(values);
	if (comm->prepared[RD_ALL_REDUCE]->exec.past_least != past_least)
		return world_report(env, "messages go past the caches from %zu bytes on",
			comm->prepared[RD_ALL_REDUCE]->exec.past_least);
	return 0;
}

/* A call that is repeated runs its own steps. */
static int repeat(struct rank_env *env)
{
	struct rondo_comm *comm = env->comm;
	const struct rd_short *brief = &comm->shorts[RD_BROADCAST];
	float values[SHORT_COUNT];

	comm->costs.links[RD_NEAR].past_caches = 1;
	for (int call = 0; call < 4; call++) {
		for (size_t i = 0; i < SHORT_COUNT; i++)
			values[i] = (float)(i + (env->rank ? 0 : call));
		TRY(rondo_broadcast(comm, values, values, SHORT_COUNT, RONDO_F32, 0, NULL));
		for (size_t i = 0; i < SHORT_COUNT; i++)
			if (values[i] != (float)(i + call))
				return world_report(env, "value %zu is %g", i, values[i]);
	}
	if (!brief->repeats || brief->past != (env->size == 2))
		return world_report(env, "repeats: %d, past: %d", brief->repeats, brief->past);
	return 0;
}

Test(past_caches, slots_are_written_past_them_unless_ranks_share_a_core, .timeout = 60)
{
	world_use_two_cores();
	for (int size = 2; size <= 4; size++)
		world_try(size, "shm", add_up);
}

Test(past_caches, short_calls_write_past_them_alike, .timeout = 60)
{
	setenv("RONDO_ALGO", "binomial", 1); /* of sends alone, whatever the costs are */
	world_use_two_cores();
	for (int size = 2; size <= 3; size++)
		world_try(size, "shm", repeat);
}
