#include "check/report.h"

#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>

#include "base/json.h"

static const char *const texts[] = { "ok", "REFUSED", "skipped", "unknown" };

void report_line(struct report *report, enum verdict verdict, const char *what, const char *reason)
{
	printf("  %-7s %s%s%s\n", texts[verdict], what, *reason ? ": " : "", reason);
	/* The next line may take long. */
	fflush(stdout);
	report->count[verdict]++;
}

static bool is_first(const struct report *report)
{
	int all = 0;

	for (int i = 0; i < VERDICT_COUNT; i++)
		all += report->count[i];
	return all == 0;
}

void report_proof(struct report *report, enum verdict verdict, const struct report_proof *proof,
	const char *reason)
{
	if (report->format == REPORT_TEXT) {
		report_line(report, verdict, proof->collective, reason);
		return;
	}
	if (report->format == REPORT_TSV) {
		printf("%s\t%s\t%s\t%d\t%d\t%d\t%s\n", proof->algorithm, proof->collective,
			texts[verdict], proof->proved, proof->declined, proof->in_part, reason);
	} else {
		printf("%s\n    {\"algorithm\": \"%s\", \"collective\": \"%s\", \"verdict\": "
		       "\"%s\", \"proved\": %d, \"declined\": %d, \"in_part\": %d, \"text\": ",
			is_first(report) ? "" : ",", proof->algorithm, proof->collective,
			texts[verdict], proof->proved, proof->declined, proof->in_part);
		rd_json_write_string(stdout, reason);
		printf("}");
	}
	fflush(stdout);
	report->count[verdict]++;
}

void report_hint(struct report *report, const char *format, ...)
{
	va_list args;

	if (*report->hint)
		return;
	va_start(args, format);
	vsnprintf(report->hint, sizeof(report->hint), format, args);
	va_end(args);
}

void report_end(const struct report *report, const char *program)
{
	if (*report->hint)
		printf("To debug: gdb --args %s %s\n", program, report->hint);
	printf("%d ok, %d refused, %d skipped", report->count[KEPT], report->count[REFUSED],
		report->count[SKIPPED]);
	if (report->count[UNKNOWN] > 0)
		printf(", %d unknown", report->count[UNKNOWN]);
	printf("\n");
}
