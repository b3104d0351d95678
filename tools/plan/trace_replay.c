#include "commands.h"

#include <stdlib.h>

#include "base/error.h"
#include "chakra.h"
#include "document.h"
#include "program.h"

/* Times of calls: as they ran, on the machine, and on that with the changes. */
enum { MEASURED, SIMULATED, CHANGED, TIMES };

struct row {
	const char *name;
	int calls;
	int64_t ns[TIMES];
};

struct table {
	const struct plan_options *options;
	struct plan_program program;
	int lacking; /* calls that were simulated whole, though steps of them are missing */
	int64_t *calls_ns; /* [calls], of the simulation at hand */
	struct row rows[RD_COLLECTIVE_COUNT]; /* sums of their calls' times */
	struct row whole; /* from the first begin to the last end */
};

/* Times of an edited file may exceed all bounds together. */
static void add_ns(int64_t *sum_ns, int64_t ns)
{
	if (__builtin_add_overflow(*sum_ns, ns, sum_ns))
		*sum_ns = INT64_MAX;
}

/* ---- Simulating ----------------------------------------------------------------------------- */

static bool has_changes(const struct plan_options *options)
{
	return options->links.count > 0 || options->slow.count > 0 || options->jitter > 0;
}

static int simulate(struct table *table, struct plan_problem *made,
	const struct plan_options *options, struct network *network, int column)
{
	int err = plan_program_simulate(&table->program, made, options, network, table->calls_ns,
		&table->whole.ns[column], &table->lacking);

	for (int i = 0; i < table->program.call_count && !err; i++) {
		const struct plan_trace_call *call = table->program.calls[i].call;

		add_ns(&table->rows[call->key->collective].ns[column], table->calls_ns[i]);
	}
	return err;
}

static int hosts_of(const struct plan_options *options, const struct plan_program *program)
{
	return options->hosts_given ? options->hosts
				    : plan_traced_hosts(&program->trace->comms[program->comm]);
}

static int make_network(struct network **network, const struct plan_options *options,
	const struct plan_program *program)
{
	return options->topology
		       ? network_create(network, options->topology, hosts_of(options, program))
		       : 0;
}

static int simulate_machine(struct table *table, struct plan_problem *made)
{
	struct plan_options options = *table->options;
	struct network *network = NULL;
	int err = make_network(&network, &options, &table->program);

	options.slow.count = options.jitter = 0;
	if (!err)
		err = simulate(table, made, &options, network, SIMULATED);
	network_destroy(network);
	return err;
}

static int simulate_changed(struct table *table, struct plan_problem *made)
{
	const struct plan_options *options = table->options;
	struct network *network = NULL;
	int err = make_network(&network, options, &table->program);

	for (int i = 0; i < options->links.count && !err; i++)
		err = network_speed(
			network, options->links.list[i].name, options->links.list[i].thousandths);
	if (!err)
		err = simulate(table, made, options, network, CHANGED);
	network_destroy(network);
	return err;
}

static int check_slow(const struct table *table)
{
	const struct plan_faults *slow = &table->options->slow;

	for (int i = 0; i < slow->count; i++)
		if (slow->list[i].rank >= table->program.ranks)
			return rd_fail(RONDO_INVALID, "rank %d is not in 0..%d", slow->list[i].rank,
				table->program.ranks - 1);
	return 0;
}

static void add_measured(struct table *table)
{
	const struct plan_program *program = &table->program;

	for (int i = 0; i < program->call_count; i++) {
		const struct plan_trace_call *call = program->calls[i].call;
		struct row *row = &table->rows[call->key->collective];

		row->name = rd_collective_name((enum rd_collective)call->key->collective);
		row->calls++;
		add_ns(&row->ns[MEASURED], call->end_ns - call->begin_ns);
	}
	table->whole.name = "whole";
	table->whole.calls = program->call_count;
	table->whole.ns[MEASURED] = program->measured_ns;
}

static int make_table(struct table *table, struct plan_problem *made, struct plan_trace *trace)
{
	int err = plan_program_make(&table->program, trace);

	if (err)
		return err;
	table->calls_ns = calloc((size_t)table->program.call_count, sizeof(*table->calls_ns));
	if (!table->calls_ns)
		return rd_fail(RONDO_MEMORY, "no memory for a simulation");
	add_measured(table);
	err = check_slow(table);
	if (!err)
		err = simulate_machine(table, made);
	if (!err && has_changes(table->options))
		err = simulate_changed(table, made);
	return err;
}

/* ---- Writing it ----------------------------------------------------------------------------- */

static int columns_of(const struct table *table)
{
	return has_changes(table->options) ? TIMES : CHANGED;
}

static void write_text_row(const struct table *table, const struct row *row, FILE *out)
{
	char text[PLAN_TIME_SIZE];

	fprintf(out, "%-16s %8d", row->name, row->calls);
	for (int i = 0; i < columns_of(table); i++)
		fprintf(out, " %12s", plan_time_text(row->ns[i], text));
	if (columns_of(table) == TIMES && row->ns[SIMULATED] > 0)
		fprintf(out, " %+8.1f %%",
			100.0 * (double)(row->ns[CHANGED] - row->ns[SIMULATED]) /
				(double)row->ns[SIMULATED]);
	fprintf(out, "\n");
}

static void write_tsv_row(const struct table *table, const struct row *row, FILE *out)
{
	fprintf(out, "%s\t%d", row->name, row->calls);
	for (int i = 0; i < columns_of(table); i++)
		fprintf(out, "\t%lld", (long long)row->ns[i]);
	fprintf(out, "\n");
}

static void write_rows(const struct table *table, FILE *out,
	void (*write)(const struct table *table, const struct row *row, FILE *out))
{
	for (int i = 0; i < RD_COLLECTIVE_COUNT; i++)
		if (table->rows[i].calls > 0)
			write(table, &table->rows[i], out);
	write(table, &table->whole, out);
}

static void write_text(const struct table *table, FILE *out)
{
	bool changes = columns_of(table) == TIMES;
	int left_out = table->program.left_out, calls = table->program.call_count;
	int ranks = table->program.ranks, hosts = hosts_of(table->options, &table->program);

	fprintf(out,
		"%d call%s of %d rank%s on %d host%s: the times of the calls together, and of the "
		"whole\n",
		calls, RD_PLURAL(calls), ranks, RD_PLURAL(ranks), hosts, RD_PLURAL(hosts));
	fprintf(out, "%-16s %8s %12s %12s%s\n", "", "calls", "measured", "simulated",
		changes ? "      changed" : "");
	write_rows(table, out, write_text_row);
	if (left_out > 0)
		fprintf(out,
			"%d call%s left out: of other comms, and those of which steps were "
			"dropped\n",
			left_out, RD_PLURAL(left_out));
	if (table->lacking > 0)
		fprintf(out, "%d call%s simulated whole, though steps are missing in the trace\n",
			table->lacking, RD_PLURAL(table->lacking));
}

static void write_tsv(const struct table *table, FILE *out)
{
	fprintf(out, "collective\tcalls\tmeasured_ns\tsimulated_ns%s\n",
		columns_of(table) == TIMES ? "\tchanged_ns" : "");
	write_rows(table, out, write_tsv_row);
}

static void write_times(const struct table *table, const struct row *row, FILE *out)
{
	fprintf(out, "\"calls\": %d, \"measured_ns\": %lld, \"simulated_ns\": %lld", row->calls,
		(long long)row->ns[MEASURED], (long long)row->ns[SIMULATED]);
	if (columns_of(table) == TIMES)
		fprintf(out, ", \"changed_ns\": %lld", (long long)row->ns[CHANGED]);
}

static void write_json(const struct table *table, FILE *out)
{
	const char *comma = "";

	fprintf(out, "{\n  \"format\": \"rondo-trace-replay 1\",\n  \"ranks\": %d,\n  ",
		table->program.ranks);
	write_times(table, &table->whole, out);
	fprintf(out, ",\n  \"left_out\": %d,\n  \"lacking\": %d,\n  \"collectives\": [",
		table->program.left_out, table->lacking);
	for (int i = 0; i < RD_COLLECTIVE_COUNT; i++) {
		if (table->rows[i].calls == 0)
			continue;
		fprintf(out, "%s\n    {\"collective\": \"%s\", ", comma, table->rows[i].name);
		write_times(table, &table->rows[i], out);
		fprintf(out, "}");
		comma = ",";
	}
	fprintf(out, "\n  ]\n}\n");
}

int plan_replay(struct plan_problem *made, const struct plan_options *options, FILE *out)
{
	struct table table = { .options = options };
	struct plan_trace *trace;
	int err = chakra_is_source(options->source) ? chakra_trace_read(&trace, made, options)
						    : plan_trace_read(&trace, options->source);

	if (err)
		return err;
	err = make_table(&table, made, trace);
	if (!err && options->json)
		write_json(&table, out);
	else if (!err && options->tsv)
		write_tsv(&table, out);
	else if (!err)
		write_text(&table, out);
	plan_program_finish(&table.program);
	free(table.calls_ns);
	plan_trace_destroy(trace);
	return err;
}
