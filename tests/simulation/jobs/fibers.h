/* The threads of all ranks, one of which runs at a time. */
#ifndef SIMULATION_JOBS_FIBERS_H
#define SIMULATION_JOBS_FIBERS_H

#include <stdbool.h>
#include <stdint.h>

struct rd_cancellation;

#define FIBERS_MAX 128

/* The world begins: there is none. */
void fibers_begin(void);
/* A thread of the rank, which runs later. Its number. */
int fibers_start(int rank, void *(*run)(void *), void *argument);
/* The rank has died: its threads run no more. */
void fibers_end_all(int rank);
/* The next one that is due, of a rank that runs; -1: none. */
int fibers_next(uint64_t *at_ns);
int fibers_rank_of(int fiber);
/* Runs until it waits. */
void fibers_run(int fiber);
/* Whether a thread of this rank has not ended. */
bool fibers_has(int rank);
/* Its descriptors may be ready. */
void fibers_stir(int rank);

/* For the one that runs: */
int fibers_rank(void); /* -1: none runs */
/* Does not return if the rank has died. */
void fibers_check(void);
void fibers_sleep(uint64_t ns);
/* Takes and gives back a lock. Before its first one, others may have the processor for a while. */
void fibers_lock(void);
void fibers_unlock(void);
/* Waits until the epoll is ready, or for that time. */
void fibers_poll(int epoll_fd, uint64_t until_ns);
/* Waits until the object is woken, or for that time. False: the time is over. */
bool fibers_await(const void *object, uint64_t until_ns);
void fibers_wake(const void *object);
/* Waits for the end of another one. */
void fibers_join(int fiber);
/* Its cancellation, in place of the thread's; NULL: none. */
void fibers_set_cancellation(struct rd_cancellation *cancellation);

#endif
