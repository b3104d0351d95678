#include "init.h"

#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "memory.h"
#include "world.h"

#define LARGE (16u << 20)

/* KiB, by the stage of a comm. */
enum { MADE, SHORT_CALLS, LONG_CALLS, STAGES };

/* The proportional set size of this process in KiB; 0: unknown. Without mappings of files, whose
   share depends on the number of processes that run the program. */
static double memory_now(void)
{
	FILE *file = fopen("/proc/self/smaps_rollup", "re");
	char line[256];
	double size = 0, part;

	while (file && fgets(line, sizeof(line), file))
		if (sscanf(line, "Pss_Anon: %lf kB", &part) == 1 ||
			sscanf(line, "Pss_Shmem: %lf kB", &part) == 1)
			size += part;
	if (file)
		fclose(file);
	return size;
}

/* The largest of the ranks' values. */
static int slowest(rondo_comm *comm, double value, double *most)
{
	return rondo_all_reduce(comm, &value, most, 1, RONDO_F64, RONDO_MAX, NULL);
}

static int time_once(rondo_comm *comm, const struct rondo_config *config, double *time_ms)
{
	rondo_comm *made;
	int err = rondo_barrier(comm, NULL);
	int64_t began = rd_clock_ns();

	if (!err)
		err = rondo_comm_create(&made, config);
	if (err)
		return err;

	double own_ms = (double)(rd_clock_ns() - began) / 1e6;

	err = slowest(comm, own_ms, time_ms);
	/* Leaving ranks would slow down the next comm. */
	int left = rondo_comm_destroy(made);

	return err ? err : left;
}

static int by_value(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;

	return (x > y) - (x < y);
}

static int time_making(
	const struct bench_options *options, rondo_comm *comm, const struct rondo_config *config)
{
	double *times_ms = calloc((size_t)options->iterations, sizeof(*times_ms));
	int err = times_ms ? 0 : RONDO_MEMORY, count = options->iterations;

	for (int i = 0; i < count && !err; i++)
		err = time_once(comm, config, &times_ms[i]);
	if (!err && rondo_comm_rank(comm) == 0) {
		qsort(times_ms, (size_t)count, sizeof(*times_ms), by_value);
		printf("#   time to make it (ms), %d time%s, the slowest rank: median %.2f, least "
		       "%.2f, most %.2f\n",
			count, count == 1 ? "" : "s", times_ms[count / 2], times_ms[0],
			times_ms[count - 1]);
	}
	free(times_ms);
	return err;
}

static int call_all(rondo_comm *comm, void *send, void *recv, size_t count)
{
	int err = rondo_all_reduce(comm, send, recv, count, RONDO_F32, RONDO_SUM, NULL);

	if (!err)
		err = rondo_all_gather(
			comm, send, recv, count / (size_t)rondo_comm_size(comm), RONDO_F32, NULL);
	if (!err)
		err = rondo_broadcast(comm, send, recv, count, RONDO_F32, 0, NULL);
	return err ? err : rondo_barrier(comm, NULL);
}

static int weigh_stages(rondo_comm *comm, const struct rondo_config *config, void *send, void *recv,
	double sizes[STAGES])
{
	double before;
	rondo_comm *made = NULL;
	/* Allocates first what a process needs only once, so that it is not counted. */
	int err = call_all(comm, send, recv, LARGE / sizeof(float));

	before = memory_now();
	if (!err)
		err = rondo_comm_create(&made, config);
	if (!err)
		err = rondo_barrier(comm, NULL);
	sizes[MADE] = memory_now() - before;
	if (!err)
		err = call_all(made, send, recv, 2);
	if (!err)
		err = rondo_barrier(comm, NULL);
	sizes[SHORT_CALLS] = memory_now() - before;
	if (!err)
		err = call_all(made, send, recv, LARGE / sizeof(float));
	if (!err)
		err = rondo_barrier(comm, NULL);
	sizes[LONG_CALLS] = memory_now() - before;
	/* No rank destroys its comm while another measures their shared memory. */
	if (!err)
		err = rondo_barrier(comm, NULL);
	rondo_comm_destroy(made);
	return err;
}

static int measure_memory(rondo_comm *comm, const struct rondo_config *config)
{
	static const char *const names[STAGES] = { "once made", "after calls of 8 B",
		"after calls of 16 MiB" };
	double sizes[STAGES] = { 0 }, most[STAGES];
	void *send = bench_memory_create(LARGE), *recv = bench_memory_create(LARGE);
	int err = send && recv ? weigh_stages(comm, config, send, recv, sizes) : RONDO_MEMORY;

	if (!err)
		err = rondo_all_reduce(comm, sizes, most, STAGES, RONDO_F64, RONDO_MAX, NULL);
	if (!err && rondo_comm_rank(comm) == 0) {
		printf("# rondo-bench init: a comm of %d rank%s\n", rondo_comm_size(comm),
			rondo_comm_size(comm) == 1 ? "" : "s");
		for (int i = 0; i < STAGES; i++)
			printf("#   memory a rank (KiB), %s: %.0f\n", names[i], most[i]);
	}
	bench_memory_destroy(send);
	bench_memory_destroy(recv);
	return err;
}

static int run_rank(rondo_comm *comm, void *argument)
{
	const struct bench_options *options = argument;
	struct rondo_config config = RONDO_CONFIG_INIT;

	config.rank = rondo_comm_rank(comm);
	config.size = rondo_comm_size(comm);
	config.transport = options->transport;

	/* Measured first: later comms leave memory in the heap, which would hide part of it. */
	int err = measure_memory(comm, &config);

	if (!err)
		err = time_making(options, comm, &config);
	return err ? bench_report_failure(rondo_comm_rank(comm), "init", err) : 0;
}

int bench_init_run(const struct bench_options *options)
{
	return bench_world_run(options, run_rank, (void *)options);
}
