#include "check/transport.h"

#include <setjmp.h>
#include <stdio.h>
#include <string.h>

#include "contract.h"
#include "error.h"
#include "party.h"
#include "plugin.h"
#include "trial.h"

#define TIMEOUT_S 60

/* A case that fails is left from where it is: its process ends anyway. */
static jmp_buf failed_case;

void complain(const char *story)
{
	rd_fail(RONDO_INVALID, "%s", story);
	longjmp(failed_case, 1);
}

struct run {
	const struct contract_case *what;
	const char *transport;
};

static int run_case(void *argument)
{
	const struct run *run = argument;

	if (setjmp(failed_case))
		return RONDO_INVALID;
	rd_trial_stage("this case");
	run->what->run(run->transport);
	return 0;
}

static bool is_wanted(const struct options *options, const char *name)
{
	if (!options->cases[0])
		return true;
	for (char **wanted = options->cases; *wanted; wanted++)
		if (strcmp(*wanted, name) == 0)
			return true;
	return false;
}

static void check_transport(
	const struct rd_transport *transport, const struct options *options, struct report *report)
{
	int timeout_ms = (options->timeout_s ? options->timeout_s : TIMEOUT_S) * 1000;

	/* A wait within a case ends first, and tells more. */
	party_wait_ms = timeout_ms / 3;
	for (const struct contract_case *one = contract_cases; one->name; one++) {
		struct run run = { one, transport->name };

		if (!is_wanted(options, one->name))
			continue;
		if (one->needs == CONTRACT_REGION && !transport->offer)
			report_line(report, SKIPPED, one->name, "it offers no memory");
		else if (rd_trial(run_case, &run, timeout_ms))
			report_line(report, REFUSED, one->name, rondo_last_error());
		else
			report_line(report, KEPT, one->name, "");
	}
}

bool check_transports(const char *path, const struct options *options,
	const struct rd_settings *settings, struct report *report)
{
	const struct rd_transport *const *transports;

	if (rd_plugin_load(RD_PLUGIN_TRANSPORT, path, settings))
		return false;
	for (transports = rd_plugin_transports(path); *transports; transports++) {
		printf("transport %s, from %s\n", (*transports)->name, path);
		check_transport(*transports, options, report);
	}
	return true;
}
