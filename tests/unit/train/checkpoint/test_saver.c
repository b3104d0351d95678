/* ctest label: threads */
#include <criterion/criterion.h>
#include <sched.h>
#include <string.h>

#include "train/base/fail.h"
#include "train/checkpoint/saver.h"
#include "train/scratch.h"

TestSuite(saver, .init = scratch_make, .fini = scratch_remove, .timeout = 60);

static float values[1 << 18];

static struct stored make_stored(void)
{
	struct stored stored;
	const struct tensor tensor = {
		.name = "a", .split = -1, .dims = 1, .shape = { 1 << 18 }, .count = 1 << 18
	};
	stored_init(&stored);
	cr_assert_eq(stored_set(&stored, CHECKPOINT_VERSION_KEY, CHECKPOINT_VERSION), 0);
	cr_assert_eq(stored_add(&stored, "", &tensor, values), 0);
	return stored;
}

Test(saver, a_save_ends_by_itself_and_is_waited_for_once)
{
	struct saver *saver;
	struct stored stored = make_stored();
	char damage[CHECKPOINT_REASON];
	values[7] = 7;
	cr_assert_eq(saver_create(&saver, scratch_path("it")), 0);
	cr_assert_not(saver_ended(saver));
	cr_assert_eq(saver_wait(saver), 0);
	cr_assert_eq(saver_start(saver, &stored), 0, "%s", failure());
	cr_assert(saver_busy(saver));
	while (!saver_ended(saver))
		sched_yield();
	cr_assert_eq(saver_wait(saver), 0, "%s", failure());
	cr_assert_not(saver_ended(saver));
	cr_assert_not(saver_busy(saver));
	cr_assert_eq(checkpoint_load(scratch_path("it"), &stored, damage), 0, "%s", failure());
	cr_assert_eq(stored_find(&stored, "", "a")->values[7], 7.0f);
	stored_finish(&stored);
	saver_destroy(saver);
}

Test(saver, a_failure_reaches_the_one_who_waits)
{
	struct saver *saver;
	struct stored stored = make_stored();
	cr_assert_eq(saver_create(&saver, scratch_path("no/it")), 0);
	cr_assert_eq(saver_start(saver, &stored), 0);
	cr_assert_neq(saver_wait(saver), 0);
	cr_assert(strstr(failure(), "no/it: cannot write"), "%s", failure());
	cr_assert_eq(saver_wait(saver), 0);
	saver_destroy(saver);
}

Test(saver, the_end_waits_for_a_save_under_way)
{
	struct saver *saver;
	struct stored stored = make_stored();
	char damage[CHECKPOINT_REASON];
	cr_assert_eq(saver_create(&saver, scratch_path("it")), 0);
	cr_assert_eq(saver_start(saver, &stored), 0);
	saver_destroy(saver);
	cr_assert_eq(checkpoint_load(scratch_path("it"), &stored, damage), 0, "%s", failure());
	stored_finish(&stored);
}
