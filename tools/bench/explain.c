#include "explain.h"

#include <string.h>

int bench_explain(const struct bench_options *options, rondo_comm *comm, size_t count,
	rondo_type type, struct rondo_way ways[BENCH_WAYS_MAX])
{
	int found = rondo_explain(comm, options->collective->name, count, type, options->registered,
		ways, BENCH_WAYS_MAX);

	return found < BENCH_WAYS_MAX ? found : BENCH_WAYS_MAX;
}

int bench_explain_choice(
	const struct bench_options *options, rondo_comm *comm, struct bench_row *row)
{
	struct rondo_way ways[BENCH_WAYS_MAX];

	/* Kernels choose otherwise, and sends and receives have no choice. */
	if (options->device || strcmp(options->collective->name, "sendrecv") == 0)
		return 0;

	int found = bench_explain(options, comm, row->count, row->type, ways);

	for (int i = 0; i < found; i++)
		if (ways[i].chosen)
			memcpy(row->algorithm, ways[i].algorithm, sizeof(row->algorithm));
	return found < 0 ? found : 0;
}

static void print_way(FILE *out, const struct rondo_way *way, double measured_us)
{
	fprintf(out, "#   %-14s predicted %10.2f us", way->algorithm, way->predicted_us);
	if (way->piece_size)
		fprintf(out, ", channels %d, pieces of %zu bytes", way->channels, way->piece_size);
	else
		fprintf(out, ", direct access");
	if (way->chosen)
		fprintf(out, "; chosen, measured %.1f us", measured_us);
	fprintf(out, "\n");
}

int bench_explain_print(FILE *out, const struct bench_options *options, rondo_comm *comm,
	size_t count, rondo_type type, double measured_us)
{
	struct rondo_way ways[BENCH_WAYS_MAX];
	int found = bench_explain(options, comm, count, type, ways);

	for (int i = 0; i < found; i++)
		print_way(out, &ways[i], measured_us);
	return found < 0 ? found : 0;
}

int bench_explain_costs(FILE *out, const rondo_comm *comm)
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
