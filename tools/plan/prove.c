#include "commands.h"

#include <stdio.h>

#include "base/error.h"
#include "check/algorithm.h"
#include "problem.h"

static void write_begin(const struct plan_options *options)
{
	if (options->json)
		printf("{\n  \"format\": \"rondo-proofs 1\",\n  \"proofs\": [");
	else if (options->tsv)
		printf("algorithm\tcollective\tverdict\tproved\tdeclined\tin_part\ttext\n");
	else
		printf("algorithm %s\n", options->algorithm);
	fflush(stdout);
}

/* A plan file's plans were proved as it was read. */
static void report_file(const struct plan_options *options, struct report *report)
{
	struct report_proof proof = { options->algorithm, rd_collective_name(options->collective),
		1, 0, 0 };
	char text[64];

	snprintf(text, sizeof(text), "proved for %d rank%s, the file's", options->ranks,
		RD_PLURAL(options->ranks));
	report_proof(report, KEPT, &proof, text);
}

int plan_prove(const struct plan_options *options)
{
	struct report report = { .format = options->json  ? REPORT_JSON
					   : options->tsv ? REPORT_TSV
							  : REPORT_TEXT };
	bool wanted[RD_COLLECTIVE_COUNT];
	const struct rd_algorithm *algorithm = NULL;
	int err = plan_plugins_load(options->plugins);

	if (!err && !options->file)
		err = plan_algorithm_called(&algorithm, options->algorithm);
	if (!err && !options->file && !options->all_collectives)
		err = plan_algorithm_serves(algorithm, options->collective);
	if (err)
		return err;
	for (int c = 0; c < RD_COLLECTIVE_COUNT; c++)
		wanted[c] = options->all_collectives || c == (int)options->collective;
	write_begin(options);
	if (options->file)
		report_file(options, &report);
	else
		check_algorithm(algorithm, wanted, options->ranks, &report);
	if (options->json)
		printf("\n  ]\n}\n");
	else if (!options->tsv)
		report_end(&report, "rondo-plan");
	return report.count[REFUSED] > 0 ? 1 : report.count[UNKNOWN] > 0 ? 3 : 0;
}
