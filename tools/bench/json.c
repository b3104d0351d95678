#include "files.h"

#include <inttypes.h>
#include <math.h>
#include <time.h>

#include "base/json.h"

/* JSON has neither infinity nor NaN. */
static void number(FILE *out, const char *key, double value)
{
	if (isfinite(value))
		fprintf(out, "\"%s\": %.9g", key, value);
	else
		fprintf(out, "\"%s\": null", key);
}

static void write_timing(
	FILE *out, const char *key, const struct bench_timing *timing, bool percentiles)
{
	fprintf(out, ", \"%s\": ", key);
	if (!timing->ran) {
		fprintf(out, "null");
		return;
	}
	fprintf(out, "{");
	number(out, "time", timing->time_us);
	fprintf(out, ", ");
	number(out, "alg_bw", timing->algbw);
	fprintf(out, ", ");
	number(out, "bus_bw", timing->busbw);
	if (timing->checked)
		fprintf(out, ", \"nwrong\": %" PRIu64, timing->wrong);
	else
		fprintf(out, ", \"nwrong\": null");
	fprintf(out, ", \"iterations\": %ld", timing->iterations);
	if (percentiles)
		fprintf(out,
			", \"p50_us\": %.9g, \"p90_us\": %.9g, \"p99_us\": %.9g, "
			"\"max_us\": %.9g",
			timing->p50_us, timing->p90_us, timing->p99_us, timing->max_us);
	fprintf(out, "}");
}

static void write_row(FILE *out, const struct bench_row *row, bool percentiles)
{
	bool data = row->collective->shape != BENCH_EMPTY;

	fprintf(out,
		"    {\"size\": %zu, \"count\": %zu, \"type\": \"%s\", \"redop\": \"%s\", "
		"\"root\": %d",
		row->size, row->count, data ? bench_type_name(row->type) : "none",
		row->collective->reduces ? rondo_op_name(row->op) : "none", row->root);
	fprintf(out, ", \"algorithm\": ");
	if (*row->algorithm)
		rd_json_write_string(out, row->algorithm);
	else
		fprintf(out, "null");
	write_timing(out, "out_of_place", &row->out_of_place, percentiles);
	write_timing(out, "in_place", &row->in_place, percentiles);
	fprintf(out, "}");
}

static void write_config(FILE *out, const struct bench_options *options, int ranks)
{
	static const char *const averages[] = { "rank 0", "average", "fastest", "slowest" };

	fprintf(out,
		"  \"config\": {\"collective\": \"%s\", \"ranks\": %d, \"nthreads\": %d, "
		"\"ngpus\": %d",
		options->collective->name, ranks, options->threads, options->gpus);
	fprintf(out, ", \"minimum_bytes\": %zu, \"maximum_bytes\": %zu", options->least,
		options->most);
	if (options->factor > 1)
		fprintf(out, ", \"step_factor\": %d", options->factor);
	else
		fprintf(out, ", \"step_bytes\": %zu", options->step);
	fprintf(out,
		", \"warmup_iters\": %d, \"iterations\": %d, \"validation\": %d, \"graph\": %d, "
		"\"blocking_collectives\": %s",
		options->warmup, options->iterations, options->checks, options->launches,
		options->blocking ? "true" : "false");
	fprintf(out, ", \"touch\": %s, \"gap_ns\": %" PRId64 ", \"walk\": %zu, \"sleep\": %s",
		options->between.touch ? "true" : "false", options->between.gap_ns,
		options->between.walk, options->between.sleep ? "true" : "false");
	fprintf(out, ", \"reported_time\": \"%s\", \"transport\": ", averages[options->average]);
	rd_json_write_string(out, options->transport ? options->transport : "");
	fprintf(out, ", \"algo\": ");
	rd_json_write_string(out, options->algo ? options->algo : "");
	fprintf(out, "},\n");
}

void bench_json_write(FILE *out, const struct bench_options *options, char **argv, int ranks,
	const struct bench_results *results)
{
	char moment[64] = "";
	time_t now = time(NULL);
	struct tm parts;

	strftime(moment, sizeof(moment), "%Y-%m-%dT%H:%M:%SZ", gmtime_r(&now, &parts));
	fprintf(out,
		"{\n  \"version\": 1,\n  \"rondo_version\": \"%s\",\n  \"end_time\": \"%s\",\n  "
		"\"args\": [",
		rondo_version(), moment);
	for (int i = 0; argv[i]; i++) {
		fprintf(out, "%s", i ? ", " : "");
		rd_json_write_string(out, argv[i]);
	}
	fprintf(out, "],\n");
	write_config(out, options, ranks);
	fprintf(out, "  \"results\": [\n");
	for (size_t i = 0; i < results->count; i++) {
		write_row(out, &results->rows[i], options->percentiles);
		fprintf(out, "%s\n", i + 1 < results->count ? "," : "");
	}
	fprintf(out,
		"  ],\n  \"out_of_bounds\": {\"count\": %d, \"okay\": %s},\n  "
		"\"average_bus_bandwidth\": {",
		results->bad, results->bad ? "false" : "true");
	number(out, "bandwidth", bench_results_busbw(results));
	fprintf(out, "}\n}\n");
}
