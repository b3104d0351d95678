#include "runs.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "agree.h"
#include "base/clock.h"
#include "explain.h"
#include "percentile.h"

#define CANDIDATES_MAX 16
#define ROUNDS 11
#define ROUNDS_QUICK 5
#define ROUNDS_LEAST 3
/* The approximate time of a turn, and of all turns at one size, in ns. */
#define TURN_NS 3e5
#define SIZE_NS 3e9
#define TURN_CALLS_MAX 1000
/* A time up to this factor of the best counts as the best. */
#define CLOSE 1.10

struct candidate {
	char algorithm[32];
	rondo_comm *comm;
	double times_us[ROUNDS]; /* of a call on the slowest rank, by round; then sorted */
};

struct comparison {
	const struct bench_options *options;
	rondo_comm *comm; /* the library's own choice */
	int rank, size;
	FILE *out; /* NULL: another rank prints */
	void *send, *recv;
	struct candidate *candidates; /* the first is the library's own choice */
	int count;
	int points, close;
};

/* ---- The candidates ---- */

static struct candidate *find_candidate(struct comparison *comparison, const char *algorithm)
{
	for (int i = 1; i < comparison->count; i++)
		if (strcmp(comparison->candidates[i].algorithm, algorithm) == 0)
			return &comparison->candidates[i];
	return NULL;
}

/* A comm that uses one algorithm wherever it can. */
static int add_candidate(struct comparison *comparison, const char *algorithm)
{
	struct candidate *candidate = &comparison->candidates[comparison->count];
	struct rondo_config config = RONDO_CONFIG_INIT;

	if (comparison->count == CANDIDATES_MAX)
		return 0;
	config.rank = comparison->rank;
	config.size = comparison->size;
	config.transport = comparison->options->transport;
	config.algo = algorithm;
	snprintf(candidate->algorithm, sizeof(candidate->algorithm), "%.31s", algorithm);
	comparison->count++;
	return rondo_comm_create(&candidate->comm, &config);
}

static size_t count_of(const struct comparison *comparison, size_t size)
{
	return bench_collective_count(
		comparison->options->collective, size, comparison->options->type, comparison->size);
}

/* Every algorithm that can run any of the sizes. */
static int add_candidates(struct comparison *comparison)
{
	size_t size = comparison->options->least;
	int err = 0;

	do {
		struct rondo_way ways[BENCH_WAYS_MAX];
		int found = bench_explain(comparison->options, comparison->comm,
			count_of(comparison, size), comparison->options->type, ways);

		if (found < 0)
			return found;
		for (int i = 0; i < found && !err; i++)
			if (!find_candidate(comparison, ways[i].algorithm))
				err = add_candidate(comparison, ways[i].algorithm);
		size = bench_size_next(comparison->options, comparison->options->type, size);
	} while (!err && size);
	return err;
}

static void destroy_candidates(struct comparison *comparison)
{
	for (int i = 1; i < comparison->count; i++)
		rondo_comm_destroy(comparison->candidates[i].comm);
	free(comparison->candidates);
}

/* ---- Turns ---- */

/* Runs `calls` calls of one candidate; returns the time of one, on the slowest rank. */
static int time_calls(const struct comparison *comparison, rondo_comm *comm, size_t count,
	long calls, double *time_us)
{
	const struct bench_options *options = comparison->options;
	struct bench_call call = {
		.collective = options->collective,
		.comm = comm,
		.send = comparison->send,
		.recv = comparison->recv,
		.count = count,
		.type = options->type,
		.op = options->op,
		.root = options->collective->rooted ? options->root : 0,
		.rank = comparison->rank,
		.size = comparison->size,
	};
	int err = options->collective->run(&call); /* the first warms the caches */

	if (!err)
		err = rondo_barrier(comm, NULL);

	int64_t began = rd_clock_ns();

	for (long i = 0; i < calls && !err; i++)
		err = options->collective->run(&call);
	*time_us = (double)(rd_clock_ns() - began) / (double)calls / 1e3;
	if (!err)
		err = bench_agree(comparison->comm, time_us, 1, RONDO_MAX);
	return err;
}

static int measure_round(struct comparison *comparison, size_t count, int round, long calls)
{
	int err = 0;

	for (int i = 0; i < comparison->count && !err; i++) {
		/* Each round begins with another candidate. */
		struct candidate *candidate =
			&comparison->candidates[(i + round) % comparison->count];

		err = time_calls(
			comparison, candidate->comm, count, calls, &candidate->times_us[round]);
	}
	return err;
}

/* Runs all rounds at one size, and takes the median of each candidate. */
static int measure_size(struct comparison *comparison, size_t count)
{
	int rounds = comparison->options->quick ? ROUNDS_QUICK : ROUNDS, err;
	double call_us, round_ns;

	err = time_calls(comparison, comparison->comm, count, 1, &call_us);
	if (!err)
		err = time_calls(comparison, comparison->comm, count, 3, &call_us);
	if (err)
		return err;

	long calls = (long)fmin(fmax(TURN_NS / (call_us * 1e3), 1), TURN_CALLS_MAX);

	round_ns = call_us * 1e3 * (double)(calls + 1) * comparison->count;
	rounds = (int)fmax(fmin(rounds, SIZE_NS / round_ns), ROUNDS_LEAST);
	for (int round = 0; round < rounds && !err; round++)
		err = measure_round(comparison, count, round, calls);
	for (int i = 0; i < comparison->count; i++)
		bench_sort(comparison->candidates[i].times_us, (size_t)rounds);
	for (int i = 0; i < comparison->count; i++)
		comparison->candidates[i].times_us[0] =
			bench_percentile(comparison->candidates[i].times_us, (size_t)rounds, 50);
	return err;
}

/* ---- The table ---- */

static void print_head(const struct comparison *comparison)
{
	fprintf(comparison->out,
		"# %s: each algorithm and the library's own choice, in turns; medians of the "
		"slowest rank\n"
		"# %10s  %-12s %10s %10s %10s  %-12s %10s  %5s\n"
		"# %10s  %-12s %10s %10s %10s  %-12s %10s  %5s\n",
		comparison->options->collective->name, "size", "chosen", "predicted", "time",
		"as called", "best", "time", "ratio", "(B)", "", "(us)", "(us)", "(us)", "", "(us)",
		"");
}

/* Compares the chosen algorithm by its own candidate, which is called like the others. */
static void conclude_size(
	struct comparison *comparison, size_t size, const struct rondo_way *ways, int found)
{
	const struct rondo_way *chosen = NULL;
	const struct candidate *best = NULL, *own = NULL;

	for (int i = 0; i < found; i++) {
		const struct candidate *candidate = find_candidate(comparison, ways[i].algorithm);

		if (ways[i].chosen) {
			chosen = &ways[i];
			own = candidate;
		}
		if (candidate && (!best || candidate->times_us[0] < best->times_us[0]))
			best = candidate;
	}
	if (!best || !own)
		return;

	double ratio = own->times_us[0] / best->times_us[0];

	comparison->points++;
	comparison->close += ratio <= CLOSE;
	if (!comparison->out)
		return;
	fprintf(comparison->out, "%12zu  %-12s %10.1f %10.1f %10.1f  %-12s %10.1f  %5.2f%s\n", size,
		chosen->algorithm, chosen->predicted_us, own->times_us[0],
		comparison->candidates[0].times_us[0], best->algorithm, best->times_us[0], ratio,
		ratio > CLOSE ? " *" : "");
	if (!comparison->options->explains)
		return;
	for (int i = 0; i < found; i++) {
		const struct candidate *candidate = find_candidate(comparison, ways[i].algorithm);

		fprintf(comparison->out, "#   %-12s predicted %10.1f us, measured %10.1f us\n",
			ways[i].algorithm, ways[i].predicted_us,
			candidate ? candidate->times_us[0] : 0);
	}
}

static int measure_sizes(struct comparison *comparison)
{
	size_t size = comparison->options->least;
	int err = 0;

	do {
		struct rondo_way ways[BENCH_WAYS_MAX];
		size_t count = count_of(comparison, size);
		int found = bench_explain(comparison->options, comparison->comm, count,
			comparison->options->type, ways);

		err = found < 0 ? found : measure_size(comparison, count);
		if (!err)
			conclude_size(comparison, size, ways, found);
		if (comparison->out)
			fflush(comparison->out);
		size = bench_size_next(comparison->options, comparison->options->type, size);
	} while (!err && size);
	return err;
}

int bench_compare_run(
	FILE *out, const struct bench_options *options, rondo_comm *comm, void *send, void *recv)
{
	struct comparison comparison = {
		.options = options,
		.comm = comm,
		.rank = rondo_comm_rank(comm),
		.size = rondo_comm_size(comm),
		.send = send,
		.recv = recv,
		.candidates = calloc(CANDIDATES_MAX, sizeof(*comparison.candidates)),
		.count = 1,
	};
	int err;

	if (!comparison.candidates)
		return RONDO_MEMORY;
	comparison.out = comparison.rank == 0 ? out : NULL;
	comparison.candidates[0].comm = comm;
	err = add_candidates(&comparison);
	if (!err && comparison.out)
		print_head(&comparison);
	if (!err)
		err = measure_sizes(&comparison);
	if (!err && comparison.out)
		fprintf(comparison.out, "# within %.0f %%: %d of %d point%s\n", (CLOSE - 1) * 100,
			comparison.close, comparison.points, comparison.points == 1 ? "" : "s");
	destroy_candidates(&comparison);
	return err;
}
