#include "world.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "base/port.h"
#include "printed.h"

struct bench_job {
	const struct bench_options *options;
	bench_rank_function rank;
	void *argument;
};

/* One of this process's ranks. */
struct member {
	const struct bench_job *job;
	struct rondo_config config;
	pthread_t thread;
	bool reports; /* the first of those that have one environment */
	int status; /* 1 until it has run */
};

int bench_report_failure(int rank, const char *what, int err)
{
	const char *reason = rondo_last_error();

	fprintf(stderr, "rondo-bench: rank %d: %s: %s\n", rank, what,
		*reason ? reason : rondo_error_text(err));
	return 1;
}

static void *run_member(void *argument)
{
	struct member *member = argument;
	rondo_comm *comm;
	int err = rondo_comm_create(&comm, &member->config);

	if (err == RONDO_SETTING && !member->reports)
		return NULL;
	if (err) {
		member->status = bench_report_failure(member->config.rank, "cannot join", err);
		return NULL;
	}
	member->status = member->job->rank(comm, member->job->argument);
	err = rondo_comm_destroy(comm);
	if (err && member->status == 0)
		member->status = bench_report_failure(member->config.rank, "leaving", err);
	return NULL;
}

/* The first member runs in this thread. */
static int run_members(struct member *members, int count)
{
	int started = 1, status;

	while (started < count &&
		pthread_create(&members[started].thread, NULL, run_member, &members[started]) == 0)
		started++;
	if (started < count) {
		/* The ranks that run would wait for those that did not start. */
		fprintf(stderr, "rondo-bench: cannot start %d threads\n", count);
		exit(1);
	}
	run_member(&members[0]);
	status = members[0].status;
	for (int i = 1; i < count; i++) {
		pthread_join(members[i].thread, NULL);
		status = status ? status : members[i].status;
	}
	return status;
}

/* Whether this process reports an error that is the same in all forked ones. */
static bool reports_errors(const struct bench_options *options, int process)
{
	return process == 0 || !options->ranks;
}

/* The ranks of one process, which are neighbours. */
static void set_members(struct member *members, int count, const struct bench_job *job,
	const struct rondo_config *config, int process)
{
	int devices = job->options->device ? rondo_device_count() : 0;

	for (int i = 0; i < count; i++) {
		struct member *member = &members[i];

		member->job = job;
		member->config = *config;
		member->reports = i == 0 && reports_errors(job->options, process);
		member->status = 1;
		member->config.rank = process * count + i;
		if (devices)
			member->config.gpu = member->config.rank % devices;
		if (i > 0)
			member->config.rendezvous_fd = -1; /* rank 0's alone, which closes it */
	}
}

/* Where there is one process, all ranks are in it. */
static bool set_rendezvous(struct rondo_config *config, int processes)
{
	if (processes > 1)
		return true;
	config->address = rd_loopback();
	config->rendezvous_fd = rd_listen_on_loopback(&config->port);
	if (config->rendezvous_fd < 0)
		fprintf(stderr, "rondo-bench: cannot listen on %s: %m\n", config->address);
	return config->rendezvous_fd >= 0;
}

static int run_process(void *argument)
{
	const struct bench_job *job = argument;
	const struct bench_options *options = job->options;
	int threads = options->threads * options->gpus;
	struct rondo_config config = RONDO_CONFIG_INIT;
	struct rondo_launch launch;
	int err = rondo_get_launch(&launch);

	if (err)
		return bench_report_failure(0, "starting", err);
	if (options->device && !rondo_device_count()) {
		if (reports_errors(options, launch.rank))
			fprintf(stderr, "rondo-bench: --device: %s\n", rondo_last_error());
		return 1;
	}
	struct member *members = calloc((size_t)threads, sizeof(*members));
	if (!members)
		return bench_report_failure(launch.rank, "starting", RONDO_MEMORY);
	config.transport = options->transport;
	config.algo = options->algo;
	config.size = launch.size * threads;
	int status = 1;
	if (set_rendezvous(&config, launch.size)) {
		set_members(members, threads, job, &config, launch.rank);
		status = run_members(members, threads);
	}
	free(members);
	return status || !printed_all("rondo-bench");
}

int bench_world_run(const struct bench_options *options, bench_rank_function rank, void *argument)
{
	struct bench_job job = { options, rank, argument };

	if (!options->ranks)
		return run_process(&job);
	int status = rondo_spawn(options->ranks, run_process, &job);
	if (status < 0)
		return bench_report_failure(0, "cannot start the ranks", status);
	return status;
}
