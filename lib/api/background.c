#include "api/background.h"

#include <pthread.h>
#include <stdbool.h>
#include <string.h>

#include "base/error.h"
#include "base/fork.h"
#include "base/fork_lock.h"
#include "base/thread.h"

/* How long a worker waits before it looks at work again that was for later. */
#define LOOK_US 200

static struct rd_fork_lock lock = RD_FORK_LOCK(RD_FORK_BACKGROUND);

/* Under the lock. */
static struct {
	unsigned forks; /* rd_process.forks in the process of the threads */
	pthread_cond_t change, ended;
	int works; /* that are not finished */
	int threads;
	int idle; /* those that begin, too: they look first */
	bool looks; /* an idle one looks again, soon */
	struct rd_background *listed;
} workers;

static bool made;

/* A forked child has none of its parent's threads, and no work. */
static void lock_workers(void)
{
	rd_fork_lock(&lock);
	if (made && workers.forks == rd_process.forks)
		return;
	memset(&workers, 0, sizeof(workers));
	workers.forks = rd_process.forks;
	rd_condition_init(&workers.change);
	rd_condition_init(&workers.ended);
	made = true;
}

static void unlock_workers(void)
{
	rd_fork_unlock(&lock);
}

static void list(struct rd_background *work)
{
	if (work->listed)
		return;
	work->next = workers.listed;
	workers.listed = work;
	work->listed = true;
}

static void unlist(struct rd_background *work)
{
	struct rd_background **at = &workers.listed;

	while (*at != work)
		at = &(*at)->next;
	*at = work->next;
	work->listed = false;
}

/* Returns work to be run now; NULL: there is none. *later: some is to be looked at again. */
static struct rd_background *look(bool *later)
{
	*later = false;
	for (struct rd_background *work = workers.listed, *next; work; work = next) {
		next = work->next;
		switch (work->look(work)) {
		case RD_BACKGROUND_NOW:
			unlist(work);
			return work;
		case RD_BACKGROUND_LATER:
			*later = true;
			break;
		case RD_BACKGROUND_NONE:
			unlist(work);
			break;
		}
	}
	return NULL;
}

static int add_thread(void);

static void run_work(struct rd_background *work)
{
	work->runs++;
	/* Somebody looks at the others meanwhile. Without a thread for that, they wait. */
	if (workers.listed && workers.idle > 0)
		pthread_cond_signal(&workers.change);
	else if (workers.listed)
		add_thread();
	unlock_workers();
	work->run(work);
	rd_fork_lock(&lock);
	work->runs--;
	list(work);
	pthread_cond_broadcast(&workers.ended);
}

static void *serve(void *argument)
{
	bool later;

	(void)argument;
	rd_fork_lock(&lock);
	workers.idle--;
	while (workers.works > 0) {
		struct rd_background *work = look(&later);

		if (work) {
			run_work(work);
			continue;
		}
		workers.idle++;
		if (later && !workers.looks) {
			workers.looks = true;
			rd_condition_wait_us(&workers.change, &lock.mutex, LOOK_US);
			workers.looks = false;
		} else {
			pthread_cond_wait(&workers.change, &lock.mutex);
		}
		workers.idle--;
	}
	workers.threads--;
	pthread_cond_broadcast(&workers.ended);
	unlock_workers();
	return NULL;
}

static int add_thread(void)
{
	pthread_t thread;
	int err = rd_thread_start(&thread, 0, serve, NULL);

	if (err)
		return err;
	pthread_detach(thread);
	workers.threads++;
	workers.idle++;
	return 0;
}

void rd_background_init(struct rd_background *work,
	enum rd_background_state (*look_at)(struct rd_background *work),
	void (*run)(struct rd_background *work))
{
	*work = (struct rd_background){ .look = look_at, .run = run };
	lock_workers();
	/* An end of work that waits for the threads to go (below) need not any more. */
	if (workers.works++ == 0)
		pthread_cond_broadcast(&workers.ended);
	unlock_workers();
}

void rd_background_finish(struct rd_background *work)
{
	lock_workers();
	while (work->runs > 0)
		pthread_cond_wait(&workers.ended, &lock.mutex);
	if (work->listed)
		unlist(work);
	if (--workers.works == 0) {
		pthread_cond_broadcast(&workers.change);
		while (workers.threads > 0 && workers.works == 0)
			pthread_cond_wait(&workers.ended, &lock.mutex);
	}
	unlock_workers();
}

int rd_background_post(struct rd_background *work)
{
	int err = 0;

	lock_workers();
	if (workers.idle == 0)
		err = add_thread();
	list(work);
	pthread_cond_signal(&workers.change);
	unlock_workers();
	return err ? rd_fail(RONDO_SYSTEM, "cannot start a thread for requests: %s", strerror(err))
		   : 0;
}
