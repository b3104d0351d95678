#include "train/threads.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/port.h"
#include "train/base/fail.h"

struct rank {
	struct rondo_config config;
	struct place_of_rank place;
	rank_main *run;
	pthread_t thread;
	int status;
};

static void *run_thread(void *argument)
{
	struct rank *rank = argument;
	rank->status = rank->run(&rank->place);
	return NULL;
}

/* Rank 0's comm takes over the socket. */
static int listen_here(struct rondo_config *config)
{
	config->address = rd_loopback();
	config->rendezvous_fd = rd_listen_on_loopback(&config->port);
	return config->rendezvous_fd < 0 ? fail("--threads: cannot listen for the other threads")
					 : 0;
}

/* The place of a launcher's process; alone, the process is all there is. */
static int place_process(struct rondo_config *config, int count, int *process)
{
	struct rondo_launch launch;
	int err = world_find_launch(&launch);
	if (err)
		return err;
	*process = launch.rank;
	config->size = count * launch.size;
	return launch.size == 1 ? listen_here(config) : 0;
}

static void start(struct rank *ranks, int count)
{
	for (int t = 0; t < count; t++) {
		int error = pthread_create(&ranks[t].thread, NULL, run_thread, &ranks[t]);
		if (!error)
			continue;
		/* The threads that run would wait for this one. With the process they end. */
		fprintf(stderr, "rondo-train: cannot start thread %d of %d: %s\n", t + 1, count,
			strerror(error));
		_exit(EXIT_FAILURE);
	}
}

int threads_run(const struct options *options, int count, int local_process, rank_main *run)
{
	struct rondo_config config = RONDO_CONFIG_INIT;
	int process = 0, status = EXIT_SUCCESS;
	struct rank *ranks = calloc(count, sizeof(*ranks));
	int err = ranks ? place_process(&config, count, &process)
			: fail("out of memory for %d threads", count);
	if (err) {
		fprintf(stderr, "rondo-train: %s\n", failure());
		free(ranks);
		return EXIT_FAILURE;
	}
	for (int t = 0; t < count; t++) {
		struct rank *rank = &ranks[t];
		*rank = (struct rank){ .config = config, .run = run };
		rank->config.rank = process * count + t;
		if (rank->config.rank)
			rank->config.rendezvous_fd = -1;
		rank->place = (struct place_of_rank){ .options = options,
			.config = &rank->config,
			.local_rank = local_process * count + t };
	}
	world_set_environment();
	start(ranks, count);
	for (int t = 0; t < count; t++) {
		pthread_join(ranks[t].thread, NULL);
		if (status == EXIT_SUCCESS)
			status = ranks[t].status;
	}
	free(ranks);
	return status;
}
