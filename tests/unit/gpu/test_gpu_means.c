/* Means on devices of the greatest and the least numbers of every float type (means.h): by direct
   access, step by step, through host memory, and by messages of each algorithm. */
#include <criterion/criterion.h>
#include <stdlib.h>

#include "elements.h"
#include "gpus.h"
#include "means.h"

TestSuite(gpu_means, .init = gpu_die_with_parent);

static bool at_once; /* the kernels add up all inputs */

static int try_types(struct rank_env *env)
{
	size_t size = MEANS_COUNT * sizeof(double);
	int device = env->rank % rondo_device_count(), wrong = 0;
	void *in, *out;

	if (env->create_error || rondo_mem_alloc_on(&in, size * (size_t)env->size, device) ||
		rondo_mem_alloc_on(&out, size, device))
		return world_report(env, "%s", rondo_last_error());
	for (int type = 0; type < RONDO_TYPE_COUNT && !wrong; type++)
		if (element_is_float(type) && element_parts(type) == 1)
			wrong = means_try_type(env, type, in, out, at_once);
	rondo_mem_free(out);
	rondo_mem_free(in);
	return wrong;
}

static void try_kernel(const char *kernel, const char *algo)
{
	for (int size = 2; size <= 5; size++) {
		struct gpu_trial trial = { kernel,
			{ .size = size, .threads = true, .algo = algo, .limit_ms = 120000 },
			try_types };

		cr_expect_eq(gpu_trial_run(&trial), 0, "%s, %s, %d ranks", kernel,
			algo ? algo : "any algorithm", size);
	}
}

Test(gpu_means, are_right_at_the_ends_of_the_range, .timeout = 240)
{
	static const char *const kernels[] = { "auto", "stepped", "staged" };
	static const char *const algorithms[] = { "ring", "tree", "binomial", "doubling", "halving",
		"pat", "chain" };

	if (!has_gpus(1))
		cr_skip_test(NO_GPU);
	for (size_t i = 0; i < sizeof(kernels) / sizeof(*kernels); i++) {
		at_once = i < 2;
		try_kernel(kernels[i], NULL);
	}
	for (size_t i = 0; i < sizeof(algorithms) / sizeof(*algorithms); i++)
		try_kernel("messages", algorithms[i]);
}
