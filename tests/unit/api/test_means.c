/* ctest label: instructions */
/* Means of the greatest and the least numbers of every float type (means.h), by every algorithm. */
#include <criterion/criterion.h>
#include <criterion/parameterized.h>

#include "elements.h"
#include "exec/algorithms.h"
#include "means.h"
#include "tuner/eligible.h"
#include "world.h"

static int try_types(struct rank_env *env)
{
	const struct rd_algorithm *algorithm = env->argument;
	struct rd_problem problem = {
		.collective = RD_ALL_REDUCE, .rank = env->rank, .size = env->size
	};
	/* Where it has no all_reduce, another algorithm runs. */
	bool at_once = (algorithm->redundant || algorithm->direct_access) &&
		       rd_algorithm_can(algorithm, &problem) > 0;
	size_t size = MEANS_COUNT * sizeof(double);
	unsigned char *in = world_get_memory(env, size * (size_t)env->size);
	unsigned char *out = world_get_memory(env, size);
	int wrong = env->comm ? 0 : world_report(env, "%s", rondo_last_error());

	for (int type = 0; type < RONDO_TYPE_COUNT && !wrong; type++)
		if (element_is_float(type) && element_parts(type) == 1)
			wrong = means_try_type(env, type, in, out, at_once);
	world_put_memory(env, out);
	world_put_memory(env, in);
	return wrong;
}

ParameterizedTestParameters(means, are_right_at_the_ends_of_the_range)
{
	static int numbers[RD_ALGORITHMS_KNOWN];
	size_t count = 0;

	while (rd_algorithms[count] && !ONLY_THREADS) {
		numbers[count] = (int)count;
		count++;
	}
	return cr_make_param_array(int, numbers, count);
}

ParameterizedTest(int *number, means, are_right_at_the_ends_of_the_range, .timeout = 300)
{
	const struct rd_algorithm *algorithm = rd_algorithms[*number];

	for (int size = 2; size <= 5; size++) {
		struct world world = { .size = size,
			.transport = size > 3 ? "mixed" : "shm",
			.memory = algorithm->direct_access ? REGISTERED : MALLOCED,
			.algo = algorithm->name,
			.limit_ms = 120000 };
		struct rank_outcome outcomes[WORLD_MAX];

		if (algorithm->direct_access)
			world.transport = "shm";
		cr_assert_eq(world_run(&world, try_types, (void *)algorithm, outcomes), 0,
			"%s on %d ranks", algorithm->name, size);
	}
}
