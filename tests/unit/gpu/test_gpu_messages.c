/* ctest label: threads */
/* Calls on device memory by messages: each algorithm, long ones, GPUs that reach only neighbours.
 */
#include <criterion/criterion.h>
#include <errno.h>
#include <stdlib.h>
#include <sys/syscall.h>

#include "gpu/messages.h"
#include "filter.h"
#include "text.h"
#include "variants.h"

struct named {
	const char *algo;
	struct trial trial;
};

static int run_named(void *argument)
{
	struct named *named = argument;

	setenv("RONDO_ALGO", named->algo, 1);
	return run_trial(&named->trial);
}

static int two_sums(struct rank_env *env)
{
	struct memory memory;
	int wrong = open_memory(env, &memory);

	for (int i = 0; i < 2 && !wrong; i++)
		wrong = one_call(env, &memory, 8);
	close_memory(&memory);
	return wrong;
}

Test(gpu_messages, every_algorithm_of_messages_is_right_on_devices, .timeout = 240)
{
	static const char *const algorithms[] = { "ring", "tree", "binomial", "doubling", "halving",
		"pat", "chain", "linear" };

	for (size_t i = 0; i < sizeof(algorithms) / sizeof(*algorithms); i++)
		for (int threads = ONLY_THREADS; threads < 2; threads++) {
			struct variant variant = { "5", "auto", threads, NULL, RD_KERNEL_MESSAGES };
			struct named named = { algorithms[i], { &variant, 5, all_collectives, 0 } };

			cr_expect_eq(in_child(run_named, &named), 0, "%s, %s", algorithms[i],
				threads ? "threads" : "processes");
		}
}

/* One call by direct access, and one by messages, of an algorithm that does neither. */
Test(gpu_messages, an_algorithm_that_devices_do_not_run_is_one_warning, .timeout = 120)
{
	struct variant fused = { "3", "fused", ONLY_THREADS, NULL, RD_KERNEL_FUSED };
	struct variant messages = { "3", "messages", ONLY_THREADS, NULL, RD_KERNEL_MESSAGES };
	struct named by_kernel = { "ring", { &fused, 3, two_sums, 0 } };
	struct named by_messages = { "binomial", { &messages, 3, two_sums, 0 } };
	const char *text;
	int wrong;

	captured_stderr_begin();
	wrong = in_child(run_named, &by_kernel);
	text = captured_stderr_end();
	cr_expect_eq(wrong, 0);
	cr_expect_eq(warnings_of(text), 1, "%s", text);
	cr_expect(strstr(text,
			  "[0] RONDO WARN RONDO_ALGO=ring is not used for all_reduce on 3 ranks: "
			  "kernels run by direct access (RONDO_KERNEL); two_shot runs it\n"),
		"%s", text);
	captured_stderr_begin();
	wrong = in_child(run_named, &by_messages);
	text = captured_stderr_end();
	cr_expect_eq(wrong, 0);
	cr_expect_eq(warnings_of(text), 1, "%s", text);
	cr_expect(strstr(text, "[0] RONDO WARN RONDO_ALGO=binomial is not used for all_reduce on 3 "
			       "ranks: it does not run on these devices; ring runs it\n"),
		"%s", text);
}

/* An allocation may wait for a device on which a peer's kernel waits for this rank's call. GPUs of
   the tests' driver have their memory in memfds. */
static int call_without_allocating(struct rank_env *env)
{
	struct memory memory;
	int wrong = open_memory(env, &memory);

	/* The ranks are threads: before the first refuses, all have their memory. */
	if (wrong || rondo_barrier(env->comm, NULL))
		return 1;
	forbid_in_all_threads(SYS_memfd_create, ENOMEM);
	for (int collective = 0; collective < RD_COLLECTIVE_COUNT && !wrong; collective++)
		if (collective != RD_TRANSFER)
			wrong = try_call(env, &memory, collective, RONDO_SUM, 1000, false, true);
	close_memory(&memory);
	return wrong;
}

static int lacks_filters(void *unused)
{
	(void)unused;
	return !forbid(SYS_memfd_create, ENOMEM);
}

Test(gpu_messages, a_call_allocates_no_device_memory, .timeout = 60)
{
	struct variant variant = { "3", "messages", true, NULL, RD_KERNEL_MESSAGES };
	struct trial trial = { &variant, 3, call_without_allocating, 0 };

	if (in_child(lacks_filters, NULL))
		cr_skip_test("no filters of system calls here");
	cr_expect_eq(in_child(run_trial, &trial), 0);
}

/* Pieces by the hundred: every slot is used again and again. */
static int long_calls(struct rank_env *env)
{
	const size_t count = ONLY_THREADS ? 1000001 : 3000001;
	struct memory memory = { NULL, NULL, NULL };
	int device = env->rank % rondo_device_count(), wrong = 0;

	if (env->create_error || rondo_mem_alloc_on((void **)&memory.in, count * 4, device) ||
		rondo_mem_alloc_on((void **)&memory.out, count * 4, device))
		return world_report(env, "%s", rondo_last_error());
	fill_floats(memory.in, env->rank, count);
	for (int call = 0; call < 2 && !wrong; call++) {
		if (rondo_all_reduce(
			    env->comm, memory.in, memory.out, count, RONDO_F32, RONDO_SUM, NULL))
			wrong = world_report(env, "%s", rondo_last_error());
		for (size_t i = 0; i < count && !wrong; i++)
			if (memory.out[i] !=
				expected(RD_ALL_REDUCE, RONDO_SUM, 0, env->size, 0, count, i))
				wrong = world_report(env, "element %zu is %g", i, memory.out[i]);
	}
	close_memory(&memory);
	return wrong;
}

Test(gpu_messages, long_messages_go_in_many_pieces, .timeout = 120)
{
	for (int threads = ONLY_THREADS; threads < 2; threads++) {
		struct variant variant = { "3", "messages", threads, NULL, RD_KERNEL_MESSAGES };
		cr_expect_eq(try_body(&variant, 3, long_calls, 0), 0, "%s",
			threads ? "threads" : "processes");
	}
}

#define NEIGHBOURS RONDO_TOPOLOGIES "/neighbours.json"

static int expect_plan(
	struct rank_env *env, enum rd_collective collective, int root, bool expected_there)
{
	struct rd_problem problem = problem_of(env, collective, root);
	bool found = rd_messages_can(env->comm->gpu->messages, &problem);

	if (found == expected_there)
		return 0;
	return world_report(
		env, "%s %s", rd_collective_name(collective), found ? "has a plan" : "has no plan");
}

/* GPUs in a ring: all of them, or one too few to close it. Plans that need more than neighbours go
   through host memory, and all results are right. */
static int among_neighbours(struct rank_env *env)
{
	int wrong = all_collectives(env), size = env->size;

	if (!wrong)
		wrong = expect_plan(env, RD_ALL_REDUCE, 0, size == 8);
	if (!wrong)
		wrong = expect_plan(env, RD_ALL_GATHER, 0, size == 8);
	if (!wrong)
		wrong = expect_plan(env, RD_BROADCAST, size - 1, size == 8);
	if (!wrong)
		wrong = expect_plan(env, RD_ALL_TO_ALL, 0, false);
	return wrong;
}

Test(gpu_messages, messages_go_where_only_neighbours_reach_each_other, .timeout = 240)
{
	for (int size = 7; size <= 8; size++)
		for (int threads = ONLY_THREADS; threads < 2; threads++) {
			struct variant variant = { NEIGHBOURS, "auto", threads, NULL,
				RD_KERNEL_MESSAGES };
			cr_expect_eq(try_body(&variant, size, among_neighbours, 0), 0, "%d %s",
				size, threads ? "threads" : "processes");
		}
}

/* Four of them have one pair alone. */
Test(gpu_messages, ranks_that_reach_nobody_have_all_staged, .timeout = 60)
{
	struct variant variant = { NEIGHBOURS, "auto", false, NULL, RD_KERNEL_STAGED };
	cr_expect_eq(try_body(&variant, 4, all_collectives, 0), 0);
}

/* A name decides only where there is a choice. */
Test(gpu_messages, a_named_algorithm_changes_nothing_where_processes_take_turns, .timeout = 60)
{
	struct variant variant = { "1", "auto", false, NULL, RD_KERNEL_STEPPED };
	struct named named = { "ring", { &variant, 3, all_collectives, 0 } };

	cr_expect_eq(in_child(run_named, &named), 0);
}
