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

enum { MANY = 8, LOOKS = 200 };

/* Work that several threads run at once; then it is for later, for so many looks. */
struct crowd {
	struct rd_background work; /* first: it is cast to the crowd */
	pthread_barrier_t together;
	atomic_int due, looks, lookers;
	atomic_bool over;
};

static _Thread_local int own_looks;

static enum rd_background_state look_at_crowd(struct rd_background *work)
{
	struct crowd *crowd = (struct crowd *)work;

	if (atomic_load(&crowd->due) > 0) {
		atomic_fetch_sub(&crowd->due, 1);
		return RD_BACKGROUND_NOW;
	}
	if (atomic_fetch_add(&crowd->looks, 1) >= LOOKS) {
		atomic_store(&crowd->over, true);
		return RD_BACKGROUND_NONE;
	}
	/* The first may be that at the end of its run. */
	if (++own_looks == 2)
		atomic_fetch_add(&crowd->lookers, 1);
	return RD_BACKGROUND_LATER;
}

static void meet(struct rd_background *work)
{
	pthread_barrier_wait(&((struct crowd *)work)->together);
	own_looks = 0;
}

/* Each thread that looks takes a core for a moment, and the work from a thread that may wait. */
Test(background, one_thread_at_a_time_looks_again, .timeout = 280)
{
	struct crowd crowd = { .due = 0 };

	pthread_barrier_init(&crowd.together, NULL, MANY);
	rd_background_init(&crowd.work, look_at_crowd, meet);
	for (int i = 0; i < MANY; i++) {
		atomic_store(&crowd.due, 1);
		cr_assert_eq(rd_background_post(&crowd.work), 0);
		while (atomic_load(&crowd.due) > 0)
			sched_yield();
	}
	while (!atomic_load(&crowd.over))
		sched_yield();
	cr_expect_eq(atomic_load(&crowd.lookers), 1, "%d threads looked", crowd.lookers);
	rd_background_finish(&crowd.work);
	pthread_barrier_destroy(&crowd.together);
}
