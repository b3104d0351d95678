/* Comms with GPUs that shrink after a death, or grow: their ranks go on in device memory. */
#include <criterion/criterion.h>
#include <signal.h>

#include "variants.h"

WITH_MEMORY(shrink_after_a_death)
{
	rondo_comm *shrunk;
	int wrong = 0, err;

	err = one_call(env, memory, 1000);
	if (env->rank == 1)
		raise(SIGKILL);
	/* The death may end the first call on others. */
	if (err == 0)
		err = one_call(env, memory, 1000);
	wrong = expect_error(env, err, RONDO_DIED);
	if (wrong)
		return wrong;
	TRY(rondo_comm_shrink(env->comm, &shrunk));
	rondo_comm_destroy(env->comm);
	env->comm = shrunk;
	env->rank = rondo_comm_rank(shrunk);
	env->size = rondo_comm_size(shrunk);
	if (env->size != 3)
		wrong = world_report(env, "%d ranks", env->size);
	return wrong ? wrong : all_collectives(env);
}

Test(gpu_shrink, ranks_that_are_left_go_on_in_device_memory, .timeout = 200)
{
	try_variants(4, shrink_after_a_death, NEVER_MS, false);
}

static int create(
	const struct rank_env *env, int size, const struct rondo_unique_id *id, rondo_comm **comm)
{
	struct rondo_config config = RONDO_CONFIG_INIT;

	config.rank = env->rank;
	config.size = size;
	config.unique_id = id;
	return rondo_comm_create(comm, &config);
}

/* The last rank is a newcomer to a comm of all others. */
static int grow_by_one(struct rank_env *env)
{
	const struct variant *variant = env->argument;
	struct rank_env all = *env;
	struct rondo_unique_id ids[2];
	rondo_comm *old = NULL;
	int newcomer = env->size - 1, wrong;

	/* These settings are the world's, not the environment's. */
	if (variant->transport)
		return 0;
	if (env->create_error)
		return world_report(env, "create: %s", rondo_last_error());
	for (int i = 0; i < 2 && env->rank == 0; i++)
		TRY(rondo_get_unique_id(&ids[i]));
	TRY(rondo_broadcast(env->comm, ids, ids, sizeof(ids), RONDO_U8, 0, NULL));
	if (env->rank == newcomer) {
		TRY(create(env, env->size, &ids[1], &all.comm));
	} else {
		TRY(create(env, newcomer, &ids[0], &old));
		TRY(rondo_comm_grow(old, env->size, env->rank ? NULL : &ids[1], &all.comm));
	}
	wrong = all_collectives(&all);
	rondo_comm_destroy(all.comm);
	rondo_comm_destroy(old);
	return wrong;
}

Test(gpu_shrink, newcomers_share_device_memory, .timeout = 200)
{
	try_variants(4, grow_by_one, 0, true);
}
