#include "check/report.h"

#include <stdarg.h>
#include <stdio.h>

void report_line(struct report *report, enum verdict verdict, const char *what, const char *reason)
{
	static const char *const texts[] = { "ok", "REFUSED", "skipped", "unknown" };

	printf("  %-7s %s%s%s\n", texts[verdict], what, *reason ? ": " : "", reason);
	/* The next line may take long. */
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
