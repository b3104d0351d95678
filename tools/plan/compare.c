#include "compare.h"

#include "base/error.h"
#include "exec/algorithms.h"
#include "tuner/eligible.h"

/* The sizes of a row each: 8 bytes to 64 MiB. */
#define LEAST 8
#define MOST (64 << 20)
#define FACTOR 8

struct column {
	const struct rd_algorithm *algorithm;
	struct rd_schedule *schedule;
};

/* Those that can run the problem. Returns 0 or an error. */
static int make_columns(
	struct column columns[RD_ALGORITHMS_KNOWN], int *count, const struct rd_problem *problem)
{
	int err = 0;

	for (int i = 0; rd_algorithms[i] && !err; i++) {
		const struct rd_algorithm *algorithm = rd_algorithms[i];
		int can = rd_algorithm_can(algorithm, problem);

		if (can < 0)
			err = can;
		if (can != 1)
			continue;
		columns[*count] = (struct column){ algorithm, NULL };
		err = rd_schedule_create(&columns[*count].schedule, algorithm, problem);
		*count += !err;
	}
	return err;
}

static void write_heading(const struct column *columns, int count, bool tsv, FILE *out)
{
	fprintf(out, tsv ? "bytes" : "%10s", "bytes");
	for (int i = 0; i < count; i++)
		fprintf(out, tsv ? "\t%s" : " %15s", columns[i].algorithm->name);
	fprintf(out, "\n");
}

static void write_row(const struct column *columns, int count, const struct plan_problem *made,
	const struct plan_options *options, size_t size, FILE *out)
{
	int64_t times[RD_ALGORITHMS_KNOWN], best = INT64_MAX;

	for (int i = 0; i < count; i++) {
		struct rd_cut cut = plan_cut(options, columns[i].algorithm, size);

		times[i] = rd_predict(columns[i].schedule, &made->costs, &cut);
		best = times[i] < best ? times[i] : best;
	}
	fprintf(out, options->tsv ? "%zu" : "%10zu", size);
	for (int i = 0; i < count; i++)
		if (options->tsv)
			fprintf(out, "\t%.3f", (double)times[i] / 1e3);
		else
			fprintf(out, " %14.2f%c", (double)times[i] / 1e3,
				times[i] == best ? '*' : ' ');
	fprintf(out, "\n");
}

int plan_compare_write(
	const struct plan_problem *made, const struct plan_options *options, FILE *out)
{
	struct column columns[RD_ALGORITHMS_KNOWN];
	int count = 0, err = make_columns(columns, &count, &made->problem);

	if (!err) {
		if (!options->tsv)
			fprintf(out, "%s, %d ranks: predicted us, by bytes of a block\n",
				rd_collective_name(made->problem.collective), made->problem.size);
		write_heading(columns, count, options->tsv, out);
		for (size_t size = LEAST; size <= MOST; size *= FACTOR)
			write_row(columns, count, made, options, size, out);
	}
	for (int i = 0; i < count; i++)
		rd_schedule_destroy(columns[i].schedule);
	return err;
}
