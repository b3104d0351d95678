#include "held_fork.h"

#include <criterion/criterion.h>
#include <errno.h>
#include <pthread.h>
#include <semaphore.h>
#include <stdbool.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

/* A fork() that does not wait for the lock has long returned. */
#define FORK_MS 300
#define CHILD_S 20

static sem_t dwells, forked;
static _Thread_local bool dwelling;

static bool wait_for(sem_t *event, int ms)
{
	struct timespec until;

	clock_gettime(CLOCK_REALTIME, &until);
	until.tv_sec += (until.tv_nsec / 1000000 + ms) / 1000;
	until.tv_nsec = (until.tv_nsec / 1000000 + ms) % 1000 * 1000000;
	while (sem_timedwait(event, &until) < 0)
		if (errno != EINTR)
			return false;
	return true;
}

void held_fork_dwell(void)
{
	if (!dwelling)
		return;
	dwelling = false;
	sem_post(&dwells);
	wait_for(&forked, FORK_MS);
}

static void *run(void *call)
{
	dwelling = true;
	(*(void (**)(void))call)();
	return NULL;
}

void fork_while(void (*call)(void))
{
	pthread_t holder;
	int status = 0;
	pid_t child;

	sem_init(&dwells, 0, 0);
	sem_init(&forked, 0, 0);
	cr_assert_eq(pthread_create(&holder, NULL, run, &call), 0);
	cr_assert(wait_for(&dwells, CHILD_S * 1000), "the call never came below its lock");
	child = fork();
	if (child == 0) {
		alarm(CHILD_S);
		call();
		_exit(0);
	}
	sem_post(&forked);
	pthread_join(holder, NULL);
	cr_assert_eq(waitpid(child, &status, 0), child);
	cr_expect(WIFEXITED(status), "the child hung: signal %d", WTERMSIG(status));
}
