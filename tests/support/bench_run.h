/*
 * Runs rondo-bench as its user does, and reads its rows.
 */
#ifndef BENCH_RUN_H
#define BENCH_RUN_H

#define OUTPUT_MAX (1 << 18)

/* The result of a run of the tool. */
struct bench_outcome {
	int status; /* -1: a signal */
	char text[OUTPUT_MAX];
};

/* Runs a shell's command with its errors among its output. Valid until the next run. */
struct bench_outcome *run_script(const char *format, ...) __attribute__((format(printf, 1, 2)));
/* Runs `rondo-bench ARGUMENTS` so. */
struct bench_outcome *run_bench(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* The n-th line that is no comment, from 0; NULL when there are fewer. */
const char *row_at(const struct bench_outcome *outcome, int n);
int rows_of(const struct bench_outcome *outcome);

/* Asserts that these arguments are refused with status 2, in one line that holds the reason. */
void expect_bench_refused(const char *arguments, const char *reason);

#endif
