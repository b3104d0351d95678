/* Ends of requests, as their functions note them. */
#ifndef ENDS_H
#define ENDS_H

#include <pthread.h>
#include <stdbool.h>
#include <time.h>

#include "rondo.h"

#define ENDS_WAIT_MS 20000

struct end {
	pthread_mutex_t lock;
	pthread_cond_t change;
	int times, error;
	rondo_request *destroyed; /* by its own end */
};

static inline void note_end(void *argument, int error)
{
	struct end *end = argument;

	rondo_request_destroy(end->destroyed);
	pthread_mutex_lock(&end->lock);
	end->times++;
	end->error = error;
	pthread_cond_broadcast(&end->change);
	pthread_mutex_unlock(&end->lock);
}

/* Returns whether the end was noted that often, within ENDS_WAIT_MS. */
static inline bool await_ends(struct end *end, int times)
{
	struct timespec until;
	int err = 0;

	clock_gettime(CLOCK_REALTIME, &until);
	until.tv_sec += ENDS_WAIT_MS / 1000;
	pthread_mutex_lock(&end->lock);
	while (end->times < times && !err)
		err = pthread_cond_timedwait(&end->change, &end->lock, &until);
	pthread_mutex_unlock(&end->lock);
	return !err;
}

#define END \
	{ \
		PTHREAD_MUTEX_INITIALIZER, PTHREAD_COND_INITIALIZER, 0, 0, NULL \
	}

#endif
