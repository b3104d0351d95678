#include "base/close_on_fork.h"

#include <pthread.h>
#include <unistd.h>

static pthread_once_t once = PTHREAD_ONCE_INIT;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct rd_close_on_fork *first; /* under the lock */

static void before_fork(void)
{
	pthread_mutex_lock(&lock);
}

static void after_fork(void)
{
	pthread_mutex_unlock(&lock);
}

static void in_child(void)
{
	for (struct rd_close_on_fork *unshared = first; unshared; unshared = unshared->next) {
		close(*unshared->fd);
		*unshared->fd = -1;
	}
	first = NULL;
	pthread_mutex_unlock(&lock);
}

static void watch_forks(void)
{
	pthread_atfork(before_fork, after_fork, in_child);
}

void rd_close_on_fork_add(struct rd_close_on_fork *unshared, int *fd)
{
	pthread_once(&once, watch_forks);
	pthread_mutex_lock(&lock);
	*unshared = (struct rd_close_on_fork){ fd, first, &first };
	if (first)
		first->at = &unshared->next;
	first = unshared;
	pthread_mutex_unlock(&lock);
}

void rd_close_on_fork_remove(struct rd_close_on_fork *unshared)
{
	pthread_mutex_lock(&lock);
	*unshared->at = unshared->next;
	if (unshared->next)
		unshared->next->at = unshared->at;
	pthread_mutex_unlock(&lock);
}
