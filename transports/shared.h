/*
 * The part of endpoints and comms that a job shares: all comms that one rank has made from one
 * another. A thread of any of them that sleeps is woken by one eventfd, which peers write. Each
 * sleeping thread has an epoll of its own, which it borrows: a further comm needs none.
 *
 * All is edge-triggered, and the eventfd is never read: each epoll reports each write. A sleeper
 * checks its links again, so it does not matter for whom a wake-up was.
 */
#ifndef RD_SHARED_H
#define RD_SHARED_H

#include <pthread.h>
#include <stdbool.h>

struct rd_listener;
struct rd_settings;
struct rd_shm_station;
struct rd_tcp_station;

struct rd_shared_epoll {
	int fd;
	bool borrowed;
};

struct rd_shared {
	int wake_fd; /* the eventfd */
	int control_fd; /* the control thread's epoll */

	pthread_mutex_t lock;
	/* Under the lock: */
	int references;
	struct rd_shared_epoll *epolls; /* [epoll_count]; the control thread's is none of them */
	int epoll_count;
	int *watched; /* [watched_count]: descriptors that wake sleepers, beside the eventfd */
	int watched_count;
	struct rd_listener *listener; /* NULL: it has no users */
	int listening; /* its users */

	pthread_mutex_t stations; /* comes before the lock */
	/* Under that: */
	struct rd_shm_station *shm; /* NULL: no endpoint of shm is there */
	struct rd_tcp_station *tcp; /* the same of tcp */
};

/* The rank's listener (bootstrap/listener.h), for comms with the secret of these settings. Its
   users are comms of several ranks, and stations. Errors: as rd_listener_create(). */
int rd_shared_listen(struct rd_shared *shared, struct rd_listener **listener,
	const struct rd_settings *settings);
/* A user less. */
void rd_shared_unlisten(struct rd_shared *shared);

/* With one reference. Errors: RONDO_MEMORY, RONDO_SYSTEM. */
int rd_shared_make(struct rd_shared **made);
struct rd_shared *rd_shared_keep(struct rd_shared *shared);
/* NULL: does nothing. The last one frees. */
void rd_shared_release(struct rd_shared *shared);
/* The same in a forked child; nothing, where a thread of the parent held the lock. */
void rd_shared_abandon(struct rd_shared *shared);

/*
 * An epoll of the caller's alone, until it is given back or, with further descriptors in it,
 * closed. Borrow it before the last look at what it shall report: who had it before has taken its
 * events. -1, with errno: there is none.
 */
int rd_shared_borrow(struct rd_shared *shared);
void rd_shared_give_back(struct rd_shared *shared, int epoll_fd);
void rd_shared_close(struct rd_shared *shared, int epoll_fd);

/* Has a descriptor wake every sleeper, until it is closed after rd_shared_unwatch(). */
int rd_shared_watch(struct rd_shared *shared, int fd);
void rd_shared_unwatch(struct rd_shared *shared, int fd);

#endif
