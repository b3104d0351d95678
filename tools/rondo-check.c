/*
 * rondo-check: tests plug-ins. Transports run the contract suite of Rondo's own transports
 * (transports/contract/); the checker proves the plans of algorithms (lib/check/checker.h).
 * Each case may crash or hang: it runs in a process of its own (lib/base/trial.h). For a debugger,
 * one case runs in this process.
 */
#include <stdio.h>

#include "base/descriptor.h"
#include "check/algorithm.h"
#include "check/options.h"
#include "check/report.h"
#include "check/transport.h"
#include "printed.h"
#include "rondo.h"

/* The default settings of a single rank. */
static bool read_settings(struct rd_settings *settings)
{
	struct rondo_config alone = RONDO_CONFIG_INIT;

	alone.rank = 0;
	alone.size = 1;
	return rd_settings_read(settings, &alone) == 0;
}

static int complain_of(const char *path)
{
	if (path)
		fprintf(stderr, "rondo-check: %s: %s\n", path, rondo_last_error());
	else
		fprintf(stderr, "rondo-check: %s\n", rondo_last_error());
	return 1;
}

int main(int argc, char **argv)
{
	struct options options;
	struct rd_settings settings;
	struct report report = { 0 };

	rd_stderr_fill();
	if (!options_read(&options, argc, argv))
		return 2;
	if (!read_settings(&settings))
		return complain_of(NULL);
	rd_settings_log(&settings);
	for (int i = 0; options.transports[i]; i++)
		if (!check_transports(options.transports[i], &options, &settings, &report))
			return complain_of(options.transports[i]);
	for (int i = 0; options.algorithms[i]; i++)
		if (!check_algorithms(options.algorithms[i], &options, &settings, &report))
			return complain_of(options.algorithms[i]);
	report_end(&report, argv[0]);
	if (!printed_all("rondo-check") || report.count[REFUSED] > 0)
		return 1;
	return report.count[UNKNOWN] > 0 ? 3 : 0;
}
