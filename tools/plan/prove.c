#include "prove.h"

#include <stdio.h>

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

int plan_prove(const struct plan_options *options)
{
	struct report report = { .format = options->json  ? REPORT_JSON
					   : options->tsv ? REPORT_TSV
							  : REPORT_TEXT };
	bool wanted[RD_COLLECTIVE_COUNT];
	const struct rd_algorithm *algorithm;
	int err = plan_plugins_load(options->plugins);

	if (!err)
		err = plan_algorithm_called(&algorithm, options->algorithm);
	if (!err && !options->all_collectives)
		err = plan_algorithm_serves(algorithm, options->collective);
	if (err)
		return err;
	for (int c = 0; c < RD_COLLECTIVE_COUNT; c++)
		wanted[c] = options->all_collectives || c == (int)options->collective;
	write_begin(options);
	check_algorithm(algorithm, wanted, options->ranks, &report);
	if (options->json)
		printf("\n  ]\n}\n");
	else if (!options->tsv)
		report_end(&report, "rondo-plan");
	return report.count[REFUSED] > 0 ? 1 : report.count[UNKNOWN] > 0 ? 3 : 0;
}
