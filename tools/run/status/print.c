#include "run/status/print.h"

#include <inttypes.h>
#include <stdio.h>

#include "base/host_name.h"
#include "printed.h"
#include "run/status/ask.h"

static void print_json(const struct statuses *statuses, const char *host)
{
	const char *separator = "";

	fputs("{\"host\":", stdout);
	rd_json_write_string(stdout, host);
	fputs(",\"ranks\":[", stdout);
	for (int i = 0; i < statuses->count; i++) {
		const struct status *status = &statuses->list[i];

		printf("%s\n ", separator);
		if (status->text)
			fputs(status->text, stdout);
		else
			printf("{\"pid\":%d,\"answers\":false}", (int)status->pid);
		separator = ",";
	}
	puts(statuses->count ? "\n]}" : "]}");
}

/* ---- Prometheus ----------------------------------------------------------------------------- */

/* https://prometheus.io/docs/instrumenting/exposition_formats/ */
static void print_label(const char *name, const char *value)
{
	printf("%s=\"", name);
	for (; *value; value++)
		switch (*value) {
		case '\\':
			fputs("\\\\", stdout);
			break;
		case '"':
			fputs("\\\"", stdout);
			break;
		case '\n':
			fputs("\\n", stdout);
			break;
		default:
			putchar(*value);
		}
	putchar('"');
}

struct metric {
	const char *name, *type, *help;
	double (*value)(const struct status *status);
	bool of_silent; /* also of a process that does not answer */
};

static double up(const struct status *status)
{
	return status->text != NULL;
}

static double failed(const struct status *status)
{
	return status->failed;
}

static double calls(const struct status *status)
{
	return (double)status_number(status, NULL, "calls");
}

static double calls_done(const struct status *status)
{
	return (double)status_number(status, NULL, "calls_done");
}

static double wait_seconds(const struct status *status)
{
	return (double)status_number(status, "wait", "ms") / 1000;
}

static const struct metric metrics[] = {
	{ "rondo_rank_up", "gauge", "1: the rank answers; 0: its process does not.", up, true },
	{ "rondo_comm_failed", "gauge", "1: the rank's communicator has failed.", failed, false },
	{ "rondo_calls_total", "counter", "Collective calls that the rank has begun.", calls,
		false },
	{ "rondo_calls_done_total", "counter", "Collective calls that the rank has ended.",
		calls_done, false },
	{ "rondo_wait_seconds", "gauge",
		"Time that the rank's present call has waited for one peer.", wait_seconds, false },
};

static void print_sample(const struct metric *metric, const struct status *status, const char *host)
{
	char number[24];

	if (!status->text && !metric->of_silent)
		return;
	printf("%s{", metric->name);
	print_label("host", host);
	snprintf(number, sizeof(number), "%d", (int)status->pid);
	putchar(',');
	print_label("pid", number);
	if (status->text) {
		putchar(',');
		print_label("job", status_text(status, "job"));
		putchar(',');
		print_label("comm", status_text(status, "comm"));
		snprintf(number, sizeof(number), "%" PRId64, status->rank);
		putchar(',');
		print_label("rank", number);
	}
	printf("} %.15g\n", metric->value(status));
}

static void print_prometheus(const struct statuses *statuses, const char *host)
{
	for (size_t i = 0; i < sizeof(metrics) / sizeof(*metrics); i++) {
		printf("# HELP %s %s\n# TYPE %s %s\n", metrics[i].name, metrics[i].help,
			metrics[i].name, metrics[i].type);
		for (int k = 0; k < statuses->count; k++)
			print_sample(&metrics[i], &statuses->list[k], host);
	}
}

/* ---- The command ---------------------------------------------------------------------------- */

static bool all_are_well(const struct statuses *statuses)
{
	for (int i = 0; i < statuses->count; i++)
		if (!statuses->list[i].text || statuses->list[i].failed)
			return false;
	return true;
}

int status_run(const char *job, bool prometheus)
{
	struct statuses statuses;
	char host[RD_HOST_NAME_SIZE];
	int result;

	if (!statuses_ask(&statuses, job))
		return 1;
	rd_host_name(host);
	if (prometheus)
		print_prometheus(&statuses, host);
	else
		print_json(&statuses, host);
	if (statuses.count == 0)
		fprintf(stderr, "rondo-run: this user has no rank%s%s%s on this host\n",
			job ? " of job \"" : "", job ? job : "", job ? "\"" : "");
	result = statuses.count && all_are_well(&statuses) ? 0 : 1;
	statuses_finish(&statuses);
	return printed_all("rondo-run") ? result : 1;
}
