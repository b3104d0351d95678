/*
 * The cancellation of a comm's creation. The thread that creates has it, and looks at it in each
 * wait: no function passes it on. Any thread may cancel. Threads without one are never cancelled.
 */
#ifndef RD_CANCELLATION_H
#define RD_CANCELLATION_H

#include <pthread.h>
#include <stdbool.h>

/* The reason, on every rank; the argument is the rank that cancels. */
#define RD_CANCELLED "rank %d cancelled the creation of the communicator"

struct rd_cancellation {
	int rank;
	int fd; /* an eventfd, or an epoll: readable once the creation is cancelled */
	pthread_mutex_t lock;
	pthread_cond_t change;
	/* Under the lock: */
	bool cancelled;
	bool disabled; /* the thread is in a call that nothing ends early */
	bool over; /* the thread is done */
	bool abandoned; /* nobody waits for it */
};

enum rd_creation_state { RD_CREATION_RUNS, RD_CREATION_OVER, RD_CREATION_ABANDONED };

/* Returns 0 or an error. */
int rd_cancellation_init(struct rd_cancellation *cancellation, int rank);
void rd_cancellation_finish(struct rd_cancellation *cancellation);

/* Cancels. Returns at once. */
void rd_cancellation_cancel(struct rd_cancellation *cancellation);
/*
 * Whether the creation still runs. Waits for the end of a cancelled one. A thread that is in a call
 * that nothing ends early is abandoned: from then on it alone has the cancellation.
 */
enum rd_creation_state rd_cancellation_look(struct rd_cancellation *cancellation);

/* The rest is for the thread that creates. NULL ends one that is not waited for. */
void rd_cancellation_begin(struct rd_cancellation *cancellation);
/* Returns whether the thread was abandoned. */
bool rd_cancellation_end(void);
/* To be waited for beside another event: readable once cancelled; -1: there is no cancellation. */
int rd_cancellation_fd(void);
bool rd_is_cancelled(void);
/* Records the reason, and returns RONDO_REVOKED. */
int rd_fail_cancelled(void);
/* Sleeps, unless cancelled. */
void rd_cancellation_sleep(int ms);
/* The thread is about to make a call that nothing ends early; it has made it. */
void rd_cancellation_disable(void);
void rd_cancellation_enable(void);

#endif
