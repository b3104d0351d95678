/* The output of rondo-check, and of rondo-plan's proofs: a line with the result of each trial. */
#ifndef CHECK_REPORT_H
#define CHECK_REPORT_H

/* UNKNOWN: rondo-check failed, or had too little time or memory; the plug-in may be right. */
enum verdict { KEPT, REFUSED, SKIPPED, UNKNOWN, VERDICT_COUNT };

/* Proofs as text, tab-separated, or as elements of a JSON array. */
enum report_format { REPORT_TEXT, REPORT_TSV, REPORT_JSON };

struct report {
	enum report_format format;
	int count[VERDICT_COUNT];
	char hint[512]; /* the arguments that repeat the first refused trial alone; or empty */
};

/* Prints "ok      a_message_lands_where_it_is_wanted", and ": " and the reason unless that is
   empty.
 */
void report_line(struct report *report, enum verdict verdict, const char *what, const char *reason);

/* A proof of one collective, and the numbers of ranks that were proved, declined, and declined for
   some roots or orders of ranks. */
struct report_proof {
	const char *algorithm, *collective;
	int proved, declined, in_part;
};

/* The same as report_line() in text; in the other formats with the numbers. */
void report_proof(struct report *report, enum verdict verdict, const struct report_proof *proof,
	const char *reason);

/* Sets the arguments that repeat a refused trial in rondo-check's own process. The first call
   counts.
 */
void report_hint(struct report *report, const char *format, ...)
	__attribute__((format(printf, 2, 3)));

/* Prints the hint as a gdb command, and "1 ok, 1 refused, 1 skipped". */
void report_end(const struct report *report, const char *program);

#endif
