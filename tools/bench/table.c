#include "results.h"

#include <inttypes.h>

static const char *average_text(enum bench_average average)
{
	static const char *const texts[] = {
		[BENCH_RANK0] = "rank 0",
		[BENCH_AVERAGE] = "the average rank",
		[BENCH_FASTEST] = "the fastest rank",
		[BENCH_SLOWEST] = "the slowest rank",
	};
	return texts[average];
}

static void half_head(FILE *out, const struct bench_options *options, const char *const names[4],
	const char *unit, const char *const percentiles[4])
{
	fprintf(out, "  %7s  %6s  %6s  %6s", names[0], names[1], names[2], names[3]);
	for (int i = 0; i < 4 && options->percentiles; i++)
		fprintf(out, "  %7s", *unit ? unit : percentiles[i]);
}

static void column_heads(FILE *out, const struct bench_options *options)
{
	static const char *const names[4] = { "time", "algbw", "busbw", "#wrong" };
	static const char *const units[4] = { "(us)", "(GB/s)", "(GB/s)", "" };
	static const char *const percentiles[4] = { "p50", "p90", "p99", "max" };
	int more = options->percentiles ? 36 : 0; /* the width of four more columns */

	fprintf(out,
		"# %10s  %12s  %8s  %6s  %6s           out-of-place%*s                       "
		"in-place          \n",
		"", "", "", "", "", more, "");
	fprintf(out, "# %10s  %12s  %8s  %6s  %6s", "size", "count", "type", "redop", "root");
	half_head(out, options, names, "", percentiles);
	half_head(out, options, names, "", percentiles);
	fprintf(out, "  algorithm\n# %10s  %12s  %8s  %6s  %6s", "(B)", "(elements)", "", "", "");
	half_head(out, options, units, "(us)", percentiles);
	half_head(out, options, units, "(us)", percentiles);
	fprintf(out, "\n");
}

static void print_between(FILE *out, const struct bench_between *between)
{
	if (bench_between_any(between))
		fprintf(out, "# each call by itself: buffers %s, gap %g us%s, walk %zu bytes\n",
			between->touch ? "touched" : "not touched", (double)between->gap_ns / 1e3,
			between->sleep ? " asleep" : "", between->walk);
}

void bench_table_head(FILE *out, const struct bench_options *options, const char *devices)
{
	bool factor = options->factor > 1;

	fprintf(out,
		"# nThread %d nGpus %d minBytes %zu maxBytes %zu step: %zu(%s) warmup iters: %d "
		"iters: %d "
		"agg iters: 1 validation: %d graph: %d\n",
		options->threads, options->gpus, options->least, options->most,
		factor ? (size_t)options->factor : options->step, factor ? "factor" : "bytes",
		options->warmup, options->iterations, options->checks, options->launches);
	fprintf(out, "# rondo %s, %s; time of %s\n", rondo_version(),
		options->blocking ? "called in the rank's own thread" : "queued on a stream",
		average_text(options->average));
	print_between(out, &options->between);
	if (options->gpus > 1)
		fprintf(out, "# -g %d: the buffers are host memory, so these ranks are threads\n",
			options->gpus);
	fprintf(out, "#\n# Using devices\n%s#\n", devices);
	column_heads(out, options);
	fflush(out);
}

/* With the decimals that fit: up to three below 10 in a wide column, else two. */
static void print_number(FILE *out, int width, double value)
{
	for (int decimals = value < 10 && width > 6 ? 3 : 2; decimals >= 0; decimals--) {
		if (snprintf(NULL, 0, "%.*f", decimals, value) <= width) {
			fprintf(out, "  %*.*f", width, decimals, value);
			return;
		}
	}
	fprintf(out, "  %*.1e", width, value);
}

static void half_row(
	FILE *out, const struct bench_options *options, const struct bench_timing *timing)
{
	if (!timing->ran) {
		fprintf(out, "  %7s  %6s  %6s  %6s", "N/A", "N/A", "N/A", "N/A");
		for (int i = 0; i < 4 && options->percentiles; i++)
			fprintf(out, "  %7s", "N/A");
		return;
	}
	print_number(out, 7, timing->time_us);
	print_number(out, 6, timing->algbw);
	print_number(out, 6, timing->busbw);
	if (timing->checked)
		fprintf(out, "  %6" PRIu64, timing->wrong);
	else
		fprintf(out, "  %6s", "N/A");
	if (options->percentiles) {
		print_number(out, 7, timing->p50_us);
		print_number(out, 7, timing->p90_us);
		print_number(out, 7, timing->p99_us);
		print_number(out, 7, timing->max_us);
	}
}

void bench_table_row(FILE *out, const struct bench_options *options, const struct bench_row *row)
{
	bool data = row->collective->shape != BENCH_EMPTY;

	fprintf(out, "%12zu  %12zu  %8s  %6s  %6d", row->size, row->count,
		data ? bench_type_name(row->type) : "none",
		row->collective->reduces ? rondo_op_name(row->op) : "none", row->root);
	half_row(out, options, &row->out_of_place);
	half_row(out, options, &row->in_place);
	fprintf(out, "  %s\n", *row->algorithm ? row->algorithm : "-");
	fflush(out);
}

void bench_table_foot(FILE *out, const struct bench_results *results)
{
	fprintf(out, "# Out of bounds values : %d %s\n", results->bad,
		results->bad ? "FAILED" : "OK");
	fprintf(out, "# Avg bus bandwidth    : %g\n#\n", bench_results_busbw(results));
	fflush(out);
}
