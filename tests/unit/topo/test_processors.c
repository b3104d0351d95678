/* Quotas of control groups, and Slurm's tasks, from files and variables of other machines. */
#include <criterion/criterion.h>
#include <sched.h>
#include <stdlib.h>

#include "base/launch/launch.h"
#include "file_tree.h"
#include "topo/processors.h"
#include "topo/cpus.h"

#define GROUPS "sys/fs/cgroup"

/* The test may run in a task of Slurm's. */
static void begin(void)
{
	unsetenv("SLURM_CPUS_PER_TASK");
	unsetenv("SLURM_STEP_ID");
	unsetenv("SLURM_PROCID");
	tree_begin();
}

TestSuite(processors, .init = begin, .fini = tree_end);

static void assert_count(int wanted)
{
	struct rd_cpus allowed;

	cr_assert(rd_cpus_read(&allowed, "0-15"));
	int count = rd_processors(&allowed, tree_root);
	cr_assert_eq(count, wanted, "%d for %d", count, wanted);
}

static void put_old(const char *group, const char *quota)
{
	tree_put(quota, GROUPS "/cpu%s/cpu.cfs_quota_us", group);
	tree_put("100000", GROUPS "/cpu%s/cpu.cfs_period_us", group);
}

Test(processors, without_control_groups_the_mask_counts)
{
	assert_count(16);
}

Test(processors, a_quota_is_rounded_down_to_at_least_one)
{
	static const struct {
		const char *quota;
		int count;
	} cases[] = { { "max 100000", 16 }, { "400000 100000", 4 }, { "150000 100000", 1 },
		{ "250000 100000", 2 }, { "50000 100000", 1 }, { "6400000 100000", 16 },
		{ "300000 50000", 6 }, { "200000", 16 }, { "200000 0", 16 }, { "-1 100000", 16 },
		{ "9223372036854775807 1", 16 } };

	tree_put("0::/", "proc/self/cgroup");
	for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
		tree_put(cases[i].quota, GROUPS "/cpu.max");
		assert_count(cases[i].count);
	}
}

Test(processors, the_least_quota_of_the_groups_above_counts)
{
	tree_put("0::/pods/pod7/container", "proc/self/cgroup");
	tree_put("max 100000", GROUPS "/pods/pod7/container/cpu.max");
	tree_put("300000 100000", GROUPS "/pods/pod7/cpu.max");
	tree_put("800000 100000", GROUPS "/pods/cpu.max");
	assert_count(3);
}

Test(processors, a_container_may_see_the_path_of_its_host)
{
	tree_put("0::/docker/0123abcd", "proc/self/cgroup");
	tree_put("200000 100000", GROUPS "/cpu.max");
	assert_count(2);
}

Test(processors, version_1_has_a_group_for_each_controller)
{
	tree_put("5:cpuset:/a\n4:cpu,cpuacct:/b/c\n0::/d", "proc/self/cgroup");
	put_old("/b/c", "-1");
	put_old("/b", "700000");
	put_old("/a", "100000");
	put_old("/d", "100000");
	assert_count(7);
}

Test(processors, a_task_of_slurm_has_its_own_number)
{
	setenv("SLURM_CPUS_PER_TASK", "4", 1);
	assert_count(16); /* the script of a job */
	setenv("SLURM_STEP_NUM_TASKS", "2", 1);
	assert_count(4);
	setenv("SLURM_NTASKS", "2", 1);
	assert_count(4);
	setenv("SLURM_NTASKS", "8", 1);
	assert_count(16); /* the shell of salloc */
}

/* Whether Slurm's tasks are the ranks, or one of them is the launcher. */
Test(processors, ranks_have_as_many_as_their_tasks)
{
	struct rd_launch launch = { .launcher = RD_LAUNCHER_SLURM };

	setenv("SLURM_STEP_NUM_TASKS", "4", 1);
	setenv("SLURM_CPUS_PER_TASK", "1", 1);
	cr_assert_eq(rd_processors_of_ranks(rd_processors_of_launch(&launch), 4), 4);
	launch.launcher = RD_LAUNCHER_TORCHRUN;
	cr_assert_eq(rd_processors_of_ranks(rd_processors_of_launch(&launch), 4), 1);
}

Test(processors, each_rank_of_a_launch_has_its_share)
{
	struct rondo_launch launch;

	setenv("SLURM_STEP_NUM_TASKS", "2", 1);
	setenv("SLURM_CPUS_PER_TASK", "1", 1);
	setenv("RANK", "1", 1);
	setenv("WORLD_SIZE", "2", 1);
	setenv("LOCAL_WORLD_SIZE", "2", 1);
	cr_assert_eq(rondo_get_launch(&launch), 0);
	cr_assert_eq(launch.processors, 1);
}

/* ---- CPUs of the calling thread -------------------------------------------------------------- */

/* The CPUs of the calling thread: it leaves one, and may run on the same as before. */

#define TRIES 100

static struct rd_cpus all;

static bool allow(const struct rd_cpus *cpus)
{
	return sched_setaffinity(0, sizeof(cpus->bits), (const cpu_set_t *)cpus->bits) == 0;
}

static void assert_allowed(const struct rd_cpus *wanted)
{
	struct rd_cpus allowed;

	cr_assert(rd_cpus_allowed(&allowed));
	cr_assert_arr_eq(&allowed, wanted, sizeof(allowed));
}

static void find_all(void)
{
	cr_assert(rd_cpus_allowed(&all));
}

/* The scheduler may move the thread back at any time, but hardly ever does at once. */
Test(cpus, a_thread_leaves_a_cpu_and_may_run_on_the_same_as_before, .init = find_all)
{
	struct rd_cpus first = { { 0 } };
	int cpu = rd_cpus_at(&all, 0), left = 0;

	if (rd_cpus_count(&all) < 2)
		cr_skip("there is but one CPU");
	rd_cpus_add(&first, cpu);
	for (int i = 0; i < TRIES; i++) {
		cr_assert(allow(&first));
		cr_assert(allow(&all));
		rd_cpus_leave(cpu);
		left += sched_getcpu() != cpu;
		assert_allowed(&all);
	}
	cr_expect_gt(left, TRIES / 2, "the thread left in %d of %d tries", left, TRIES);
}

Test(cpus, a_thread_with_one_cpu_stays_there, .init = find_all)
{
	struct rd_cpus one = { { 0 } };
	int cpu = rd_cpus_at(&all, 0);

	rd_cpus_add(&one, cpu);
	cr_assert(allow(&one));
	rd_cpus_leave(cpu);
	assert_allowed(&one);
	cr_expect_eq(sched_getcpu(), cpu);
}
