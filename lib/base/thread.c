#include "base/thread.h"

#include <link.h>
#include <signal.h>
#include <time.h>

static int add_thread_locals(struct dl_phdr_info *file, size_t size, void *sum)
{
	(void)size;
	for (int i = 0; i < file->dlpi_phnum; i++)
		if (file->dlpi_phdr[i].p_type == PT_TLS)
			*(size_t *)sum += file->dlpi_phdr[i].p_memsz + file->dlpi_phdr[i].p_align;
	return 0;
}

int rd_thread_start(pthread_t *thread, size_t stack_size, void *(*run)(void *), void *argument)
{
	pthread_attr_t attributes;
	sigset_t all, before;
	int error;

	pthread_attr_init(&attributes);
	if (stack_size > 0) {
		/* glibc takes the program's thread-local variables from a thread's stack. */
		dl_iterate_phdr(add_thread_locals, &stack_size);
		pthread_attr_setstacksize(&attributes, stack_size);
	}
	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &before);
	error = pthread_create(thread, &attributes, run, argument);
	pthread_sigmask(SIG_SETMASK, &before, NULL);
	pthread_attr_destroy(&attributes);
	return error;
}

void rd_condition_init(pthread_cond_t *condition)
{
	pthread_condattr_t attributes;

	pthread_condattr_init(&attributes);
	pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC);
	pthread_cond_init(condition, &attributes);
	pthread_condattr_destroy(&attributes);
}

void rd_condition_wait_us(pthread_cond_t *condition, pthread_mutex_t *lock, int64_t timeout_us)
{
	struct timespec until;

	clock_gettime(CLOCK_MONOTONIC, &until);
	until.tv_sec += timeout_us / 1000000;
	until.tv_nsec += timeout_us % 1000000 * 1000L;
	until.tv_sec += until.tv_nsec / 1000000000;
	until.tv_nsec %= 1000000000;
	pthread_cond_timedwait(condition, lock, &until);
}

void rd_condition_wait_ms(pthread_cond_t *condition, pthread_mutex_t *lock, int timeout_ms)
{
	rd_condition_wait_us(condition, lock, timeout_ms * INT64_C(1000));
}
