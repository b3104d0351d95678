/*
 * The library's threads, and their condition variables.
 */
#ifndef RD_THREAD_H
#define RD_THREAD_H

#include <pthread.h>
#include <stddef.h>
#include <stdint.h>

/*
 * Starts a thread and returns the error of pthread_create(3). The thread blocks all signals, which
 * are for the program's own threads. stack_size: bytes, beside the program's thread-local
 * variables; 0: the default of the program's threads.
 */
int rd_thread_start(pthread_t *thread, size_t stack_size, void *(*run)(void *), void *argument);

/* Initialises a condition whose timed waits use CLOCK_MONOTONIC, as all bounds here do
   (clock.h). */
void rd_condition_init(pthread_cond_t *condition);
/* Waits for the condition, timeout_us at most. With the lock held, and again on return. */
void rd_condition_wait_us(pthread_cond_t *condition, pthread_mutex_t *lock, int64_t timeout_us);
/* The same, in milliseconds. */
void rd_condition_wait_ms(pthread_cond_t *condition, pthread_mutex_t *lock, int timeout_ms);

#endif
