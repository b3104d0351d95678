#include "check/report.h"

#include <stdio.h>

void report_line(struct report *report, enum verdict verdict, const char *what, const char *story)
{
	static const char *const texts[] = { "ok", "REFUSED", "skipped" };

	printf("  %-7s %s%s%s\n", texts[verdict], what, *story ? ": " : "", story);
	/* The next line may be long in coming. */
	fflush(stdout);
	report->count[verdict]++;
}
