/* The output of rondo-check: a line with the result of each trial. */
#ifndef CHECK_REPORT_H
#define CHECK_REPORT_H

/* UNKNOWN: rondo-check failed, or had too little time or memory; the plug-in may be right. */
enum verdict { KEPT, REFUSED, SKIPPED, UNKNOWN, VERDICT_COUNT };

struct report {
	int count[VERDICT_COUNT];
	char hint[512]; /* the arguments that repeat the first refused trial alone; or empty */
};

/* Prints "ok      a_message_lands_where_it_is_wanted", and ": " and the reason unless that is
   empty.
 */
void report_line(struct report *report, enum verdict verdict, const char *what, const char *reason);

/* Sets the arguments that repeat a refused trial in rondo-check's own process. The first call
   counts.
 */
void report_hint(struct report *report, const char *format, ...)
	__attribute__((format(printf, 2, 3)));

/* Prints the hint as a gdb command, and "1 ok, 1 refused, 1 skipped". */
void report_end(const struct report *report, const char *program);

#endif
