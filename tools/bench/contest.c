#include "contest.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "agree.h"
#include "clock.h"
#include "measure.h"

#define CONTESTANTS_MAX 16
#define WAYS_MAX 32
#define ROUNDS 11
#define ROUNDS_QUICK 5
#define ROUNDS_LEAST 3
/* The approximate time of a turn, and of all turns at one size, in ns. */
#define TURN_NS 3e5
#define SIZE_NS 3e9
#define TURN_CALLS_MAX 1000
/* A time up to this factor of the best counts as the best. */
#define CLOSE 1.10

struct contestant {
	char algorithm[32];
	rondo_comm *comm;
	double times_us[ROUNDS]; /* of a call on the slowest rank, by round; then sorted */
};

struct contest {
	const struct bench_options *options;
	rondo_comm *comm; /* the library's own choice */
	int rank, size;
	FILE *out; /* NULL: another rank prints */
	void *send, *recv;
	struct contestant *contestants; /* the first is the library's own choice */
	int count;
	int points, close;
};

static int explain(const struct bench_options *options, rondo_comm *comm, size_t count,
	rondo_type type, struct rondo_way ways[WAYS_MAX])
{
	int found = rondo_explain(
		comm, options->collective->name, count, type, options->registered, ways, WAYS_MAX);

	return found < WAYS_MAX ? found : WAYS_MAX;
}

int bench_contest_chosen(
	const struct bench_options *options, rondo_comm *comm, struct bench_row *row)
{
	struct rondo_way ways[WAYS_MAX];

	/* Kernels choose otherwise, and sends and receives have no choice. */
	if (options->device || strcmp(options->collective->name, "sendrecv") == 0)
		return 0;

	int found = explain(options, comm, row->count, row->type, ways);

	for (int i = 0; i < found; i++)
		if (ways[i].chosen)
			memcpy(row->algorithm, ways[i].algorithm, sizeof(row->algorithm));
	return found < 0 ? found : 0;
}

/* ---- Explaining ---- */

static void print_way(FILE *out, const struct rondo_way *way, double measured_us)
{
	fprintf(out, "#   %-14s predicted %10.1f us", way->algorithm, way->predicted_us);
	if (way->piece_size)
		fprintf(out, ", channels %d, pieces of %zu bytes", way->channels, way->piece_size);
	else
		fprintf(out, ", direct access");
	if (way->chosen)
		fprintf(out, "; chosen, measured %.1f us", measured_us);
	fprintf(out, "\n");
}

int bench_contest_explain(FILE *out, const struct bench_options *options, rondo_comm *comm,
	size_t count, rondo_type type, double measured_us)
{
	struct rondo_way ways[WAYS_MAX];
	int found = explain(options, comm, count, type, ways);

	for (int i = 0; i < found; i++)
		print_way(out, &ways[i], measured_us);
	return found < 0 ? found : 0;
}

int bench_contest_costs(FILE *out, const rondo_comm *comm)
{
	char text[4096];
	int length = rondo_costs(comm, text, sizeof(text));

	if (length < 0)
		return length;
	fprintf(out, "# Costs, as measured when the ranks met (docs/design.md, Picking)\n");
	for (char *line = text; *line; line += strcspn(line, "\n"), line += *line == '\n')
		fprintf(out, "#   %.*s\n", (int)strcspn(line, "\n"), line);
	fprintf(out, "#\n");
	return 0;
}

/* ---- The contestants ---- */

static struct contestant *find(struct contest *contest, const char *algorithm)
{
	for (int i = 1; i < contest->count; i++)
		if (strcmp(contest->contestants[i].algorithm, algorithm) == 0)
			return &contest->contestants[i];
	return NULL;
}

/* A comm that uses one algorithm wherever it can. */
static int enter(struct contest *contest, const char *algorithm)
{
	struct contestant *contestant = &contest->contestants[contest->count];
	struct rondo_config config = RONDO_CONFIG_INIT;

	if (contest->count == CONTESTANTS_MAX)
		return 0;
	config.rank = contest->rank;
	config.size = contest->size;
	config.transport = contest->options->transport;
	config.algo = algorithm;
	snprintf(contestant->algorithm, sizeof(contestant->algorithm), "%.31s", algorithm);
	contest->count++;
	return rondo_comm_create(&contestant->comm, &config);
}

static size_t count_of(const struct contest *contest, size_t size)
{
	return bench_collective_count(
		contest->options->collective, size, contest->options->type, contest->size);
}

/* Every algorithm that can run any of the sizes. */
static int enter_all(struct contest *contest)
{
	size_t size = contest->options->least;
	int err = 0;

	do {
		struct rondo_way ways[WAYS_MAX];
		int found = explain(contest->options, contest->comm, count_of(contest, size),
			contest->options->type, ways);

		if (found < 0)
			return found;
		for (int i = 0; i < found && !err; i++)
			if (!find(contest, ways[i].algorithm))
				err = enter(contest, ways[i].algorithm);
		size = bench_size_next(contest->options, contest->options->type, size);
	} while (!err && size);
	return err;
}

static void leave_all(struct contest *contest)
{
	for (int i = 1; i < contest->count; i++)
		rondo_comm_destroy(contest->contestants[i].comm);
	free(contest->contestants);
}

/* ---- Turns ---- */

/* Runs `calls` calls of one contestant; returns the time of one, on the slowest rank. */
static int take_turn(
	const struct contest *contest, rondo_comm *comm, size_t count, long calls, double *time_us)
{
	const struct bench_options *options = contest->options;
	struct bench_call call = {
		.collective = options->collective,
		.comm = comm,
		.send = contest->send,
		.recv = contest->recv,
		.count = count,
		.type = options->type,
		.op = options->op,
		.root = options->collective->rooted ? options->root : 0,
		.rank = contest->rank,
		.size = contest->size,
	};
	int err = options->collective->run(&call); /* the first warms the caches */

	if (!err)
		err = rondo_barrier(comm, NULL);

	int64_t began = bench_now_ns();

	for (long i = 0; i < calls && !err; i++)
		err = options->collective->run(&call);
	*time_us = (double)(bench_now_ns() - began) / (double)calls / 1e3;
	if (!err)
		err = bench_agree(contest->comm, time_us, 1, RONDO_MAX);
	return err;
}

static int play_round(struct contest *contest, size_t count, int round, long calls)
{
	int err = 0;

	for (int i = 0; i < contest->count && !err; i++) {
		/* Each round begins with another contestant. */
		struct contestant *contestant = &contest->contestants[(i + round) % contest->count];

		err = take_turn(
			contest, contestant->comm, count, calls, &contestant->times_us[round]);
	}
	return err;
}

static int ascending(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;
	return (x > y) - (x < y);
}

/* Runs all rounds at one size, and takes the median of each contestant. */
static int play_size(struct contest *contest, size_t count)
{
	int rounds = contest->options->quick ? ROUNDS_QUICK : ROUNDS, err;
	double call_us, round_ns;

	err = take_turn(contest, contest->comm, count, 1, &call_us);
	if (!err)
		err = take_turn(contest, contest->comm, count, 3, &call_us);
	if (err)
		return err;

	long calls = (long)fmin(fmax(TURN_NS / (call_us * 1e3), 1), TURN_CALLS_MAX);

	round_ns = call_us * 1e3 * (double)(calls + 1) * contest->count;
	rounds = (int)fmax(fmin(rounds, SIZE_NS / round_ns), ROUNDS_LEAST);
	for (int round = 0; round < rounds && !err; round++)
		err = play_round(contest, count, round, calls);
	for (int i = 0; i < contest->count; i++)
		qsort(contest->contestants[i].times_us, (size_t)rounds, sizeof(double), ascending);
	for (int i = 0; i < contest->count; i++)
		contest->contestants[i].times_us[0] =
			bench_percentile(contest->contestants[i].times_us, (size_t)rounds, 50);
	return err;
}

/* ---- The table ---- */

static void print_head(const struct contest *contest)
{
	fprintf(contest->out,
		"# %s: each algorithm and the library's own choice, in turns; medians of the "
		"slowest rank\n"
		"# %10s  %-12s %10s %10s %10s  %-12s %10s  %5s\n"
		"# %10s  %-12s %10s %10s %10s  %-12s %10s  %5s\n",
		contest->options->collective->name, "size", "chosen", "predicted", "time",
		"as called", "best", "time", "ratio", "(B)", "", "(us)", "(us)", "(us)", "", "(us)",
		"");
}

/* Compares the chosen algorithm by its own contestant, which is called like the others. */
static void judge(struct contest *contest, size_t size, const struct rondo_way *ways, int found)
{
	const struct rondo_way *chosen = NULL;
	const struct contestant *best = NULL, *own = NULL;

	for (int i = 0; i < found; i++) {
		const struct contestant *contestant = find(contest, ways[i].algorithm);

		if (ways[i].chosen) {
			chosen = &ways[i];
			own = contestant;
		}
		if (contestant && (!best || contestant->times_us[0] < best->times_us[0]))
			best = contestant;
	}
	if (!best || !own)
		return;

	double ratio = own->times_us[0] / best->times_us[0];

	contest->points++;
	contest->close += ratio <= CLOSE;
	if (!contest->out)
		return;
	fprintf(contest->out, "%12zu  %-12s %10.1f %10.1f %10.1f  %-12s %10.1f  %5.2f%s\n", size,
		chosen->algorithm, chosen->predicted_us, own->times_us[0],
		contest->contestants[0].times_us[0], best->algorithm, best->times_us[0], ratio,
		ratio > CLOSE ? " *" : "");
	if (!contest->options->explains)
		return;
	for (int i = 0; i < found; i++) {
		const struct contestant *contestant = find(contest, ways[i].algorithm);

		fprintf(contest->out, "#   %-12s predicted %10.1f us, measured %10.1f us\n",
			ways[i].algorithm, ways[i].predicted_us,
			contestant ? contestant->times_us[0] : 0);
	}
}

static int play_sizes(struct contest *contest)
{
	size_t size = contest->options->least;
	int err = 0;

	do {
		struct rondo_way ways[WAYS_MAX];
		size_t count = count_of(contest, size);
		int found = explain(
			contest->options, contest->comm, count, contest->options->type, ways);

		err = found < 0 ? found : play_size(contest, count);
		if (!err)
			judge(contest, size, ways, found);
		if (contest->out)
			fflush(contest->out);
		size = bench_size_next(contest->options, contest->options->type, size);
	} while (!err && size);
	return err;
}

int bench_contest_run(
	FILE *out, const struct bench_options *options, rondo_comm *comm, void *send, void *recv)
{
	struct contest contest = {
		.options = options,
		.comm = comm,
		.rank = rondo_comm_rank(comm),
		.size = rondo_comm_size(comm),
		.send = send,
		.recv = recv,
		.contestants = calloc(CONTESTANTS_MAX, sizeof(*contest.contestants)),
		.count = 1,
	};
	int err;

	if (!contest.contestants)
		return RONDO_MEMORY;
	contest.out = contest.rank == 0 ? out : NULL;
	contest.contestants[0].comm = comm;
	err = enter_all(&contest);
	if (!err && contest.out)
		print_head(&contest);
	if (!err)
		err = play_sizes(&contest);
	if (!err && contest.out)
		fprintf(contest.out, "# within %.0f %%: %d of %d point%s\n", (CLOSE - 1) * 100,
			contest.close, contest.points, contest.points == 1 ? "" : "s");
	leave_all(&contest);
	return err;
}
