/* What rondo-check prints: a line for each thing tried, and how it ended. */
#ifndef CHECK_REPORT_H
#define CHECK_REPORT_H

/* UNKNOWN: rondo-check itself failed, or had too little time or memory; the plug-in may be right.
 */
enum verdict { KEPT, REFUSED, SKIPPED, UNKNOWN, VERDICT_COUNT };

struct report {
	int count[VERDICT_COUNT];
	char hint[512]; /* of the first that was refused: the arguments to try it alone; or empty */
};

/* "ok      a_message_lands_where_it_is_wanted" and, where it is not empty, ": " and the reason. */
void report_line(struct report *report, enum verdict verdict, const char *what, const char *reason);

/* The arguments with which rondo-check tries again what was refused, in its own process. The first
   stays. */
void report_hint(struct report *report, const char *format, ...)
	__attribute__((format(printf, 2, 3)));

/* The hint, as a command of gdb's, and "1 ok, 1 refused, 1 skipped". */
void report_end(const struct report *report, const char *program);

#endif
