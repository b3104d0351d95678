#include "pair.h"

#include <pthread.h>
#include <sched.h>

struct half {
	void (*run)(int side, void *argument);
	void *argument;
	int side, processor;
	pthread_barrier_t *start;
};

void bench_pair_processors(int processors[2])
{
	cpu_set_t set;
	int found = 0;

	CPU_ZERO(&set);
	sched_getaffinity(0, sizeof(set), &set);
	processors[0] = 0;
	for (int i = 0; i < CPU_SETSIZE && found < 2; i++) {
		if (CPU_ISSET(i, &set))
			processors[found++] = i;
	}
	if (found < 2)
		processors[1] = processors[0];
}

bool bench_pair_pin(int processor)
{
	cpu_set_t set;

	CPU_ZERO(&set);
	CPU_SET(processor, &set);
	return sched_setaffinity(0, sizeof(set), &set) == 0;
}

static void *start(void *argument)
{
	struct half *half = argument;

	bench_pair_pin(half->processor);
	pthread_barrier_wait(half->start);
	half->run(half->side, half->argument);
	return NULL;
}

bool bench_pair_run(void (*side)(int side, void *argument), void *argument)
{
	pthread_barrier_t barrier;
	struct half halves[2];
	pthread_t threads[2];
	int processors[2], started = 0;

	bench_pair_processors(processors);
	pthread_barrier_init(&barrier, NULL, 2);
	for (; started < 2; started++) {
		halves[started] =
			(struct half){ side, argument, started, processors[started], &barrier };
		if (pthread_create(&threads[started], NULL, start, &halves[started]))
			break;
	}
	if (started == 1)
		pthread_barrier_wait(&barrier); /* for the thread that did not start */
	for (int i = 0; i < started; i++)
		pthread_join(threads[i], NULL);
	pthread_barrier_destroy(&barrier);
	return started == 2;
}
