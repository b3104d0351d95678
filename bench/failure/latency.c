/*
 * Measures how long a death takes to reach every rank that lives: from just before the end of a
 * process, or of a cable, to the last rank's error. ./rondo bench failure runs it.
 *
 * Two hosts are network namespaces of this kernel, so their round trip is a few microseconds.
 */
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "arguments.h"
#include "base/clock.h"
#include "world.h"

#define SIZE 4
#define ELEMENTS 100000
#define MS 1000000.0
/* The ranks are in their calls by then, or asleep in them. */
#define SETTLE_US 5000
#define POLL_US 100
#define ROUNDS_MAX 100000

static const struct scenario {
	const char *name;
	bool two_hosts, in_a_call;
	bool pulls_cable; /* no process dies */
	const char *unreachable_ms; /* NULL: the default */
	int rounds;
} scenarios[] = {
	{ "one host, a rank is killed, the others compute", false, false, false, NULL, 100 },
	{ "one host, a rank is killed, the others are in a call", false, true, false, NULL, 100 },
	{ "two hosts, a rank is killed, the others compute", true, false, false, NULL, 50 },
	{ "two hosts, a rank is killed, the others are in a call", true, true, false, NULL, 50 },
	{ "two hosts, a cable is pulled, RONDO_UNREACHABLE_MS=1000", true, true, true, "1000", 20 },
	{ "two hosts, a cable is pulled, RONDO_UNREACHABLE_MS=10000", true, true, true, NULL, 4 },
};

#define SCENARIOS (sizeof(scenarios) / sizeof(*scenarios))

/* Shared by the ranks of a round. */
static struct round {
	const struct scenario *scenario;
	int victim;
	_Atomic int ready; /* ranks that compute, or are about to call */
	_Atomic int64_t began_ns;
	_Atomic int64_t noticed_ns[SIZE]; /* 0: it has not */
} * round_now;

static int end_it(struct rank_env *env)
{
	const struct scenario *scenario = round_now->scenario;

	while (atomic_load(&round_now->ready) < SIZE - 1)
		usleep(POLL_US);
	usleep(SETTLE_US);
	atomic_store(&round_now->began_ns, rd_clock_ns());
	if (!scenario->pulls_cable)
		return raise(SIGKILL);
	if (!hosts_unplug(env->world->hosts, 1, 0))
		return world_report(env, "the cable stays in");
	return 0;
}

static int wait_for_error(struct rank_env *env, float *values)
{
	int err = 0;

	if (round_now->scenario->in_a_call)
		return rondo_all_reduce(
			env->comm, values, values, ELEMENTS, RONDO_F32, RONDO_SUM, NULL);
	while (!(err = rondo_comm_error(env->comm)))
		usleep(POLL_US);
	return err;
}

static int run_rank(struct rank_env *env)
{
	static float values[ELEMENTS];
	bool is_victim = env->rank == round_now->victim;
	int wanted = round_now->scenario->pulls_cable ? RONDO_TIMEOUT : RONDO_DIED, err;

	for (int i = 0; i < 3; i++)
		if (world_sum(env, values, ELEMENTS))
			return 1;
	atomic_fetch_add(&round_now->ready, !is_victim);
	if (is_victim && end_it(env))
		return 1;
	err = wait_for_error(env, values);
	atomic_store(&round_now->noticed_ns[env->rank], rd_clock_ns());
	/* Where the dead rank had not read all, its kernel resets the connection. */
	if (wanted == RONDO_DIED && err == RONDO_BROKEN)
		err = wanted;
	return err == wanted ? 0 : world_report(env, "%s", rondo_last_error());
}

/* Returns the ms; below 0: it failed, and stderr says how. */
static double run_round(const struct scenario *scenario, const struct hosts *hosts, int number)
{
	struct world world = { .size = SIZE,
		.limit_ms = 60000,
		.quiet = true,
		.transport = scenario->two_hosts ? NULL : "shm",
		.hosts = hosts,
		.host_of = { 0, 0, 1, 1 } };
	struct rank_outcome outcomes[WORLD_MAX];
	int64_t last_ns = 0;

	*round_now = (struct round){ .scenario = scenario, .victim = number % SIZE };
	world_run(&world, run_rank, NULL, outcomes);
	for (int rank = 0; rank < SIZE; rank++) {
		bool dies = rank == round_now->victim && !scenario->pulls_cable;
		int64_t noticed_ns = atomic_load(&round_now->noticed_ns[rank]);

		if (outcomes[rank].status != (dies ? 128 + SIGKILL : 0)) {
			fprintf(stderr, "rank %d of round %d: status %d: %s\n", rank, number,
				outcomes[rank].status, outcomes[rank].text);
			return -1;
		}
		if (noticed_ns > last_ns)
			last_ns = noticed_ns;
	}
	if (scenario->pulls_cable && !hosts_plug(hosts, 1, 0))
		return -1;
	return (double)(last_ns - atomic_load(&round_now->began_ns)) / MS;
}

static int compare(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;

	return (x > y) - (x < y);
}

/* The least sample that `share` of all do not exceed. They are sorted. */
static double quantile(const double *samples, int count, double share)
{
	int at = (int)(share * count + 0.999999) - 1;

	return samples[at < 0 ? 0 : at];
}

static bool run_scenario(const struct scenario *scenario, const struct hosts *hosts, int rounds)
{
	double *samples = calloc((size_t)rounds, sizeof(*samples));

	if (!samples)
		return false;
	if (scenario->unreachable_ms)
		setenv("RONDO_UNREACHABLE_MS", scenario->unreachable_ms, 1);
	else
		unsetenv("RONDO_UNREACHABLE_MS");
	for (int i = 0; i < rounds; i++) {
		samples[i] = run_round(scenario, scenario->two_hosts ? hosts : NULL, i);
		if (samples[i] < 0) {
			free(samples);
			return false;
		}
	}
	qsort(samples, (size_t)rounds, sizeof(*samples), compare);
	printf("| %s | %d | %.2f | %.2f | %.2f | %.2f |\n", scenario->name, rounds,
		quantile(samples, rounds, 0.5), quantile(samples, rounds, 0.9),
		quantile(samples, rounds, 0.99), samples[rounds - 1]);
	fflush(stdout);
	free(samples);
	return true;
}

struct options {
	int rounds; /* 0: those of the table */
};

int main(int argc, char **argv)
{
	static const char help[] =
		"usage: failure_latency [--rounds N]\n"
		"\n"
		"Measures from the death of a rank, or of a cable, to the error on the last of\n"
		"4 ranks. --rounds N: of each line; by default 100 on one host, down to 4 where\n"
		"a round takes 10 s.\n";
	static const struct argument table[] = {
		{ "rounds", 0, offsetof(struct options, rounds), arguments_number, 1, ROUNDS_MAX },
		{ 0 },
	};
	static const struct arguments known = { help, table, false, NULL, NULL };
	struct options options = { 0 };
	const char *reason = "";
	struct hosts *hosts;
	bool well = true;
	int left = arguments_read(&known, &options, argc, argv);

	if (left < 0)
		return 2;
	if (left < argc)
		return arguments_refuse("%s is no option here", argv[left]), 2;
	round_now = mmap(NULL, sizeof(*round_now), PROT_READ | PROT_WRITE,
		MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	if (round_now == MAP_FAILED) {
		perror("failure_latency");
		return 1;
	}
	setenv("RONDO_DEBUG", "NONE", 1);
	hosts = hosts_create(&(struct hosts_shape){ .count = 2 }, &reason);
	printf("From the event to the error on the last rank, in ms:\n\n"
	       "| event | rounds | p50 | p90 | p99 | most |\n|:---|---:|---:|---:|---:|---:|\n");
	for (size_t i = 0; i < SCENARIOS && well; i++) {
		const struct scenario *scenario = &scenarios[i];

		if (scenario->two_hosts && !hosts)
			printf("| %s | 0: %s | | | | |\n", scenario->name, reason);
		else
			well = run_scenario(scenario, hosts,
				options.rounds ? options.rounds : scenario->rounds);
	}
	return well ? 0 : 1;
}
