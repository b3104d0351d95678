#include "check/transport.h"

#include <setjmp.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>

#include "check/crash.h"
#include "check/speed.h"
#include "transports/contract/suite.h"
#include "base/error.h"
#include "transports/contract/fixture.h"
#include "transports/transports.h"
#include "api/plugin.h"
#include "base/trial.h"

#define TIMEOUT_S 60
#define DEBUGGER_TIMEOUT_S 3600

/* A failed case exits at once: its process ends anyway. */
static jmp_buf failed_case;

void case_failed(const char *reason)
{
	rd_fail(RONDO_INVALID, "%s", reason);
	longjmp(failed_case, 1);
}

/* Shared with the process of a case. */
struct trial {
	_Atomic int crash; /* enum crash_place */
	char result[SPEED_TEXT];
};

struct run {
	const struct contract_case *what;
	const struct rd_transport *transport;
	const char *path; /* of a plug-in; the name of a transport of Rondo's own */
	bool own; /* a transport of Rondo's own */
	struct trial *trial; /* in shared memory */
	bool here; /* in this process */
	bool measures; /* the cases of speed.h */
};

static int run_case(void *argument)
{
	const struct run *run = argument;

	if (setjmp(failed_case))
		return RONDO_INVALID;
	rd_trial_stage("this case");
	if (!run->here && !run->own)
		crash_watch(&run->trial->crash, run->transport);
	run->what->run(run->transport->name);
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

/* The suite also crashes where the plug-in returned an invalid pointer. */
static const char *place_text(enum crash_place place)
{
	static const char *const texts[] = {
		[CRASH_UNKNOWN] = "",
		[CRASH_IN_PLUGIN] = ", in a function of the plug-in",
		[CRASH_UNDER_PLUGIN] = ", in Rondo, called by the plug-in",
		[CRASH_IN_RONDO] = (", in the suite and in no function of the plug-in: memory "
				    "that one of them gave it, or a fault of rondo-check"),
	};

	return texts[place];
}

static void report_failure(const struct run *run, int err, struct report *report)
{
	char text[RD_REASON_SIZE + 160];

	snprintf(text, sizeof(text), "%s%s", rondo_last_error(),
		place_text((enum crash_place)run->trial->crash));
	report_line(report, err == RONDO_MEMORY ? UNKNOWN : REFUSED, run->what->name, text);
	if (!run->here && !run->measures)
		report_hint(report, "--transport %s --no-fork %s", run->path, run->what->name);
}

/* NULL: the transport must pass this case. */
static const char *reason_to_skip(
	const struct contract_case *what, const struct rd_transport *transport)
{
	if (what->needs == CONTRACT_REGION && !transport->offer)
		return "it offers no memory";
	if (what->needs == CONTRACT_REGISTRATION && !transport->attach)
		return "it takes no registrations";
	if (what->needs == CONTRACT_PEER && transport == &rd_transport_loop)
		return "it links a rank to itself alone";
	return NULL;
}

static void check_case(struct run *run, int timeout_ms, struct report *report)
{
	const struct contract_case *what = run->what;
	const char *reason = reason_to_skip(what, run->transport);
	int err;

	if (reason) {
		report_line(report, SKIPPED, what->name, reason);
		return;
	}
	*run->trial = (struct trial){ .crash = CRASH_UNKNOWN };
	err = run->here ? run_case(run) : rd_trial(run_case, run, timeout_ms);
	if (err)
		report_failure(run, err, report);
	else
		report_line(report, KEPT, what->name, run->trial->result);
}

static int timeout_of(const struct options *options)
{
	if (options->timeout_s)
		return options->timeout_s * 1000;
	return (options->no_fork ? DEBUGGER_TIMEOUT_S : TIMEOUT_S) * 1000;
}

static void check_cases(struct run *run, const struct options *options, struct report *report)
{
	int timeout_ms = timeout_of(options);

	/* A wait within a case ends first, and its reason is more precise. */
	fixture_wait_ms = timeout_ms / 3;
	for (const struct contract_case *one = run->measures ? speed_cases : contract_cases;
		one->name; one++) {
		run->what = one;
		if (is_wanted(options, one->name))
			check_case(run, timeout_ms, report);
	}
}

static void check_transport(struct run *run, const struct options *options, struct report *report)
{
	if (run->own)
		printf("transport %s\n", run->transport->name);
	else
		printf("transport %s, from %s\n", run->transport->name, run->path);
	fflush(stdout);
	check_cases(run, options, report);
}

static int load(struct run *run, const struct rd_settings *settings)
{
	run->transport = rd_transport_find(run->path);
	run->own = run->transport != NULL;
	if (run->own)
		return run->transport->probe ? run->transport->probe(settings) : 0;
	return rd_plugin_load(RD_PLUGIN_TRANSPORT, run->path, settings);
}

bool check_transports(const char *path, const struct options *options,
	const struct rd_settings *settings, struct report *report)
{
	const struct rd_transport *const *transports;
	struct run run = { .path = path, .here = options->no_fork, .measures = options->measures };

	if (load(&run, settings))
		return false;
	run.trial = mmap(NULL, sizeof(*run.trial), PROT_READ | PROT_WRITE,
		MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	if (run.trial == MAP_FAILED)
		return !rd_fail(RONDO_MEMORY, "no memory to try it");
	speed_text = run.trial->result;
	if (run.own)
		check_transport(&run, options, report);
	else
		for (transports = rd_plugin_transports(path); *transports; transports++) {
			run.transport = *transports;
			check_transport(&run, options, report);
		}
	munmap(run.trial, sizeof(*run.trial));
	return true;
}
