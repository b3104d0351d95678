/* The CPUs of the calling thread: it leaves one, and may run on the same as before. */
#include <criterion/criterion.h>
#include <sched.h>

#include "topo/cpus.h"

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

static void begin(void)
{
	cr_assert(rd_cpus_allowed(&all));
}

/* The scheduler may move the thread back at any time, but hardly ever does at once. */
Test(cpus, a_thread_leaves_a_cpu_and_may_run_on_the_same_as_before, .init = begin)
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

Test(cpus, a_thread_with_one_cpu_stays_there, .init = begin)
{
	struct rd_cpus one = { { 0 } };
	int cpu = rd_cpus_at(&all, 0);

	rd_cpus_add(&one, cpu);
	cr_assert(allow(&one));
	rd_cpus_leave(cpu);
	assert_allowed(&one);
	cr_expect_eq(sched_getcpu(), cpu);
}
