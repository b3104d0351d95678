/* What rondo-check prints: a line for each thing tried, and how it ended. */
#ifndef CHECK_REPORT_H
#define CHECK_REPORT_H

enum verdict { KEPT, REFUSED, SKIPPED, VERDICT_COUNT };

struct report {
	int count[VERDICT_COUNT];
};

/* "ok      a_message_lands_where_it_is_wanted" and, where it is not empty, ": " and the story. */
void report_line(struct report *report, enum verdict verdict, const char *what, const char *story);

#endif
