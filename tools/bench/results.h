/* The results of a run, the same on every rank. */
#ifndef BENCH_RESULTS_H
#define BENCH_RESULTS_H

#include "measure.h"

struct bench_results {
	struct bench_row *rows;
	size_t count;
	int bad; /* measurements with a wrong value */
	double busbw; /* summed over the measurements */
	int measurements;
};

/* Adds a copy of the row. RONDO_MEMORY without memory. */
int bench_results_add(struct bench_results *results, const struct bench_row *row);
/* The average bus bandwidth, in GB/s (1e9); 0 without measurements. */
double bench_results_busbw(const struct bench_results *results);
void bench_results_finish(struct bench_results *results);

/* table.c: the table on standard output, with the lines and columns of nccl-tests. Only rank 0
   prints. First the lines before the table; `devices` is text of whole lines, one a rank. */
void bench_table_head(FILE *out, const struct bench_options *options, const char *devices);
void bench_table_row(FILE *out, const struct bench_options *options, const struct bench_row *row);
void bench_table_foot(FILE *out, const struct bench_results *results);

#endif
