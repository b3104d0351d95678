/* Trials where SIGCHLD is ignored: the kernel discards children, and their statuses. */
#include <criterion/criterion.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/error.h"
#include "base/trial.h"

static bool comes_late;

/* With SIGCHLD ignored, this returns when the child has gone. */
static void come_late(void)
{
	if (comes_late)
		wait(NULL);
}

static int succeed(void *argument)
{
	(void)argument;
	return 0;
}

static int refuse(void *argument)
{
	return rd_fail(RONDO_INVALID, "for the reason %s", (const char *)argument);
}

static int crash(void *argument)
{
	(void)argument;
	rd_trial_stage("its stage");
	raise(SIGSEGV);
	return 0;
}

static int hang(void *argument)
{
	(void)argument;
	return pause();
}

/* In its second stage, after half of a second in the first. */
static int hang_late(void *argument)
{
	int64_t until_ms = rd_clock_ms() + 500;

	rd_trial_stage("one");
	while (rd_clock_ms() < until_ms)
		sched_yield();
	rd_trial_stage("two");
	return hang(argument);
}

Test(trial, ends_as_its_body_does_where_sigchld_is_ignored, .timeout = 60)
{
	signal(SIGCHLD, SIG_IGN);
	cr_assert_eq(pthread_atfork(NULL, come_late, NULL), 0);
	for (int late = 0; late < 2; late++) {
		comes_late = late;
		cr_expect_eq(rd_trial(succeed, NULL, 30000), 0, "%s", rondo_last_error());
		cr_expect_eq(rd_trial(refuse, "x", 30000), RONDO_INVALID);
		cr_expect_str_eq(rondo_last_error(), "for the reason x");
		cr_expect_eq(rd_trial(crash, NULL, 30000), RONDO_SYSTEM);
		cr_expect_str_eq(rondo_last_error(), "crashed, or ended the process in its stage");
	}
	comes_late = false;
	cr_expect_eq(rd_trial(hang, NULL, 10), RONDO_TIMEOUT);
	cr_expect_str_eq(rondo_last_error(), "hung for 0.0 s");
}

Test(trial, that_hangs_has_the_time_of_its_stage, .timeout = 60)
{
	double s;

	cr_assert_eq(rd_trial(hang_late, NULL, 3000), RONDO_TIMEOUT);
	cr_assert_eq(sscanf(rondo_last_error(), "hung for %lf s in two", &s), 1);
	cr_expect(s < 2.6, "%s", rondo_last_error());
}
