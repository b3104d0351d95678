/*
 * The threads that the library starts, and what they wait on.
 */
#ifndef RD_THREAD_H
#define RD_THREAD_H

#include <pthread.h>
#include <stddef.h>

/*
 * As pthread_create(3), of which it returns the error. It takes no signals: those are for the
 * program's own threads. stack_size: bytes; 0: as the program's threads have.
 */
int rd_thread_start(pthread_t *thread, size_t stack_size, void *(*run)(void *), void *argument);

/* A condition whose bounded waits go by CLOCK_MONOTONIC, as all bounds here do (clock.h). */
void rd_condition_init(pthread_cond_t *condition);

#endif
