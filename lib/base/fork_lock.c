#include "base/fork_lock.h"

static pthread_once_t once = PTHREAD_ONCE_INIT;
static pthread_mutex_t list_lock = PTHREAD_MUTEX_INITIALIZER;
static struct rd_fork_lock *known; /* by falling level; under the lock */

static void before_fork(void)
{
	pthread_mutex_lock(&list_lock);
	for (struct rd_fork_lock *lock = known; lock; lock = lock->next)
		pthread_mutex_lock(&lock->mutex);
}

static void after_fork(void)
{
	for (struct rd_fork_lock *lock = known; lock; lock = lock->next)
		pthread_mutex_unlock(&lock->mutex);
	pthread_mutex_unlock(&list_lock);
}

static void watch_forks(void)
{
	pthread_atfork(before_fork, after_fork, after_fork);
}

static void add(struct rd_fork_lock *lock)
{
	struct rd_fork_lock **at = &known;

	pthread_once(&once, watch_forks);
	pthread_mutex_lock(&list_lock);
	if (!atomic_load(&lock->known)) {
		while (*at && (*at)->level > lock->level)
			at = &(*at)->next;
		lock->next = *at;
		*at = lock;
		atomic_store(&lock->known, true);
	}
	pthread_mutex_unlock(&list_lock);
}

void rd_fork_lock(struct rd_fork_lock *lock)
{
	if (!atomic_load_explicit(&lock->known, memory_order_acquire))
		add(lock);
	pthread_mutex_lock(&lock->mutex);
}

void rd_fork_unlock(struct rd_fork_lock *lock)
{
	pthread_mutex_unlock(&lock->mutex);
}
