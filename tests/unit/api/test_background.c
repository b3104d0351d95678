/* The threads behind requests and tagged messages: they come with work, and go with its end. */
#include <criterion/criterion.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdbool.h>

#include "api/background.h"

#define ROUNDS 3000

/* Work that is done once it has run. */
struct job {
	struct rd_background work; /* first: it is cast to the job */
	atomic_bool due;
	atomic_int runs;
};

static enum rd_background_state look(struct rd_background *work)
{
	struct job *job = (struct job *)work;

	return atomic_load(&job->due) ? RD_BACKGROUND_NOW : RD_BACKGROUND_NONE;
}

static void run(struct rd_background *work)
{
	struct job *job = (struct job *)work;

	atomic_store(&job->due, false);
	atomic_fetch_add(&job->runs, 1);
}

static atomic_int ends; /* of come_and_go()'s works */
static atomic_bool stops;

static void *come_and_go(void *argument)
{
	(void)argument;
	while (!atomic_load(&stops)) {
		struct job job = { .due = true };

		rd_background_init(&job.work, look, run);
		cr_assert_eq(rd_background_post(&job.work), 0);
		rd_background_finish(&job.work);
		cr_assert_leq(atomic_load(&job.runs), 1);
		atomic_fetch_add(&ends, 1);
	}
	return NULL;
}

/* The last work ends, which waits for the threads to go, while another comes and stays. */
Test(background, an_end_waits_for_no_work_that_comes_meanwhile, .timeout = 280)
{
	pthread_t thread;

	cr_assert_eq(pthread_create(&thread, NULL, come_and_go, NULL), 0);
	for (int i = 0; i < ROUNDS; i++) {
		struct job job = { .due = false };
		int before;

		rd_background_init(&job.work, look, run);
		before = atomic_load(&ends);
		while (atomic_load(&ends) < before + 2)
			sched_yield();
		rd_background_finish(&job.work);
	}
	atomic_store(&stops, true);
	pthread_join(thread, NULL);
}
