/* ctest label: threads */
/* A rank that has no memory for a plan of a call on devices fails its call, or its comm: it runs
   the call in no other way than its peers. */
#include <criterion/criterion.h>
#include <stdatomic.h>

#include "base/error.h"
#include "plan/plan.h"
#include "variants.h"

/* The linker has the library call this one in this program: CMakeLists.txt. */
int __real_rd_plan_create(struct rd_plan **plan, const struct rd_algorithm *algorithm,
	const struct rd_problem *problem);
int __wrap_rd_plan_create(struct rd_plan **plan, const struct rd_algorithm *algorithm,
	const struct rd_problem *problem);

static atomic_bool rank_1_lacks; /* memory for one plan of its own calls */
static _Thread_local int plans_to_fail; /* plans of this thread until one fails; 0: none does */

int __wrap_rd_plan_create(struct rd_plan **plan, const struct rd_algorithm *algorithm,
	const struct rd_problem *problem)
{
	if ((problem->rank == 1 && atomic_exchange(&rank_1_lacks, false)) ||
		(plans_to_fail > 0 && --plans_to_fail == 0)) {
		*plan = NULL;
		return rd_fail(RONDO_MEMORY, "no memory for a plan");
	}
	return __real_rd_plan_create(plan, algorithm, problem);
}

WITH_MEMORY(sum_without_memory)
{
	int wrong = 0, err;

	/* The comm is made on every rank. Rank 1's next call may end the others' barrier. */
	err = rondo_barrier(env->comm, NULL);
	if (env->rank == 1)
		rank_1_lacks = true;
	if (!err)
		err = one_call(env, memory, 1000);
	wrong = expect_error(env, err, RONDO_MEMORY);
	return wrong;
}

static int try_to_sum(void *variant)
{
	struct trial trial = { variant, 3, sum_without_memory, NEVER_MS };

	return run_trial(&trial);
}

Test(gpu_lack_of_memory, for_a_plan_of_direct_access_is_the_error_of_all_ranks, .timeout = 120)
{
	struct variant direct[] = {
		{ "3", "fused", true, NULL, RD_KERNEL_FUSED },
		{ "3", "stepped", true, NULL, RD_KERNEL_STEPPED },
		{ "3", "fused", false, NULL, RD_KERNEL_FUSED },
	};

	for (int i = 0; i < (ONLY_THREADS ? 2 : 3); i++)
		cr_expect_eq(in_child(try_to_sum, &direct[i]), 0, "%s, %s", direct[i].kernel,
			direct[i].threads ? "threads" : "processes");
}

/* Makes a second comm, and calls on it. Rank 1 lacks memory for this plan. */
static int use_second_comm(struct rank_env *env, int plan, bool *lacked)
{
	rondo_comm *comm = NULL;
	int err;

	plans_to_fail = env->rank == 1 ? plan : 0;
	err = world_second_comm(env, &comm);
	*lacked = env->rank == 1 && plans_to_fail == 0;
	plans_to_fail = 0;
	if (!err)
		err = rondo_barrier(comm, NULL);
	rondo_comm_destroy(comm);
	return err;
}

static int lack_memory_for_every_plan(struct rank_env *env)
{
	int plan = 1, err = 1;
	bool lacked;

	TRY(env->create_error);
	/* The plan of the broadcast that precedes a second comm. */
	TRY(use_second_comm(env, 0, &lacked));
	for (; err; plan += 1 + plan / 4) {
		err = use_second_comm(env, plan, &lacked);
		if (!err && lacked)
			return world_report(env, "plan %d is missing, and the comm works", plan);
	}
	return plan > 20 ? 0 : world_report(env, "only %d plans", plan);
}

static int try_second_comms(void *variant)
{
	struct trial trial = { variant, 3, lack_memory_for_every_plan, NEVER_MS };

	return run_trial(&trial);
}

Test(gpu_lack_of_memory, for_a_plan_of_messages_fails_the_comm, .timeout = 120)
{
	struct variant messages = { "3", "messages", true, NULL, RD_KERNEL_MESSAGES };

	cr_expect_eq(in_child(try_second_comms, &messages), 0);
}
