#include "commands.h"

#include <string.h>

#include "base/error.h"
#include "exec/algorithms.h"
#include "plan/plan_file.h"
#include "simulated.h"
#include "tuner/eligible.h"

/* The sizes of a row each: 8 bytes to 64 MiB. */
#define LEAST 8
#define MOST (64 << 20)
#define FACTOR 8

/* An algorithm; without a network it is predicted, over one simulated. */
struct column {
	const struct rd_algorithm *algorithm;
	struct rd_schedule *schedule;
	struct plan_simulated simulated;
};

struct table {
	const struct plan_problem *made;
	const struct plan_options *options;
	struct network *network; /* NULL: none */
	struct column columns[RD_ALGORITHMS_KNOWN];
	int count;
};

/* ---- Columns -------------------------------------------------------------------------------- */

static int add_column(struct table *table, const struct rd_algorithm *algorithm)
{
	struct column *column = &table->columns[table->count];
	int err;

	*column = (struct column){ .algorithm = algorithm };
	if (table->network)
		err = plan_simulated_create(
			&column->simulated, table->made, table->options, algorithm, table->network);
	else
		err = rd_schedule_create(&column->schedule, algorithm, &table->made->problem);
	table->count += !err;
	return err;
}

/* Adds the named algorithm, or all that can run the problem. Returns 0 or an error. */
static int add_columns(struct table *table)
{
	const struct rd_algorithm *named;
	int err = 0;

	if (table->options->algorithm) {
		err = plan_algorithm_find(&named, table->made, table->options->algorithm);
		return err ? err : add_column(table, named);
	}
	for (int i = 0; rd_algorithms[i] && !err; i++) {
		int can = rd_algorithm_can(rd_algorithms[i], &table->made->problem);

		if (can < 0)
			err = can;
		else if (can &&
			 (!table->network || plan_can_simulate(table->made, rd_algorithms[i])))
			err = add_column(table, rd_algorithms[i]);
	}
	return err;
}

/* Below 0: the algorithm is a plan file, which is for blocks of other sizes. */
static int time_column(
	const struct table *table, struct column *column, size_t size, double *time_ns)
{
	const struct rd_plan_file *file =
		rd_plan_file_of(column->algorithm, table->made->problem.collective);
	struct rd_cut cut = plan_cut(table->options, column->algorithm, size);
	int err = 0;

	if (file && ((int64_t)size < file->least_bytes || (int64_t)size > file->most_bytes)) {
		*time_ns = -1;
	} else if (table->network) {
		err = plan_simulated_run(&column->simulated, size);
		*time_ns = (double)column->simulated.simulation.end_ps / 1e3;
	} else {
		*time_ns = (double)rd_predict(column->schedule, &table->made->costs, &cut);
	}
	return err;
}

/* ---- Writing them --------------------------------------------------------------------------- */

static void write_heading(const struct table *table, FILE *out)
{
	const struct plan_problem *made = table->made;
	bool tsv = table->options->tsv;

	if (table->options->json) {
		fprintf(out,
			"{\n  \"format\": \"rondo-comparison 1\",\n  \"collective\": \"%s\",\n"
			"  \"ranks\": %d,\n  \"hosts\": %d,\n  \"root\": %d,\n  \"rows\": [",
			rd_collective_name(made->problem.collective), made->problem.size,
			made->layout.group_count, made->problem.root);
		return;
	}
	if (!tsv)
		fprintf(out, "%s, %d ranks: %s us, by bytes of a block\n",
			rd_collective_name(made->problem.collective), made->problem.size,
			table->network ? "simulated" : "predicted");
	fprintf(out, tsv ? "bytes" : "%10s", "bytes");
	for (int i = 0; i < table->count; i++)
		fprintf(out, tsv ? "\t%s" : " %15s", table->columns[i].algorithm->name);
	fprintf(out, "\n");
}

static void write_json_row(
	const struct table *table, const double *times_ns, size_t size, FILE *out)
{
	const char *comma = "";

	fprintf(out, "%s\n    {\"bytes\": %zu, \"ns\": {", size > LEAST ? "," : "", size);
	for (int i = 0; i < table->count; i++) {
		if (times_ns[i] < 0)
			continue;
		fprintf(out, "%s\"%s\": %.3f", comma, table->columns[i].algorithm->name,
			times_ns[i]);
		comma = ", ";
	}
	fprintf(out, "}}");
}

static int write_row(struct table *table, size_t size, FILE *out)
{
	double times_ns[RD_ALGORITHMS_KNOWN], best = -1;

	for (int i = 0; i < table->count; i++) {
		int err = time_column(table, &table->columns[i], size, &times_ns[i]);

		if (err)
			return err;
		if (times_ns[i] >= 0 && (best < 0 || times_ns[i] < best))
			best = times_ns[i];
	}
	if (table->options->json) {
		write_json_row(table, times_ns, size, out);
		return 0;
	}
	fprintf(out, table->options->tsv ? "%zu" : "%10zu", size);
	for (int i = 0; i < table->count; i++)
		if (times_ns[i] < 0)
			fprintf(out, table->options->tsv ? "\t" : " %14s ", "-");
		else if (table->options->tsv)
			fprintf(out, "\t%.3f", times_ns[i] / 1e3);
		else
			fprintf(out, " %14.2f%c", times_ns[i] / 1e3,
				times_ns[i] == best ? '*' : ' ');
	fprintf(out, "\n");
	return 0;
}

static int write_table(struct table *table, FILE *out)
{
	int err = add_columns(table);

	if (err)
		return err;
	write_heading(table, out);
	for (size_t size = LEAST; size <= MOST && !err; size *= FACTOR)
		err = write_row(table, size, out);
	if (table->options->json)
		fprintf(out, "\n  ]\n}\n");
	return err;
}

int plan_compare(struct plan_problem *made, const struct plan_options *options, FILE *out)
{
	struct table table = { .made = made, .options = options };
	int err = 0;

	if (options->topology)
		err = network_create(&table.network, options->topology, options->hosts);
	if (!err)
		err = write_table(&table, out);
	for (int i = 0; i < table.count; i++) {
		rd_schedule_destroy(table.columns[i].schedule);
		plan_simulated_destroy(&table.columns[i].simulated);
	}
	network_destroy(table.network);
	return err;
}
