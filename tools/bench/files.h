/* The files that a run writes: results as JSON, and as a plot. Rank 0 alone has them. */
#ifndef BENCH_FILES_H
#define BENCH_FILES_H

#include "results.h"

struct bench_files {
	FILE *json, *svg; /* NULL: no such option, or written already */
};

/* Opens the files before measuring: a wrong name must not cost the results. A file keeps its
   contents until there are results. False, with one line on stderr, on failure; close them in any
   case. */
bool bench_files_open(struct bench_files *files, const struct bench_options *options);

/* Writes them. argv: the command line. False, with one line on stderr, on failure. */
bool bench_files_write(struct bench_files *files, const struct bench_options *options, char **argv,
	int ranks, const struct bench_results *results);

/* json.c: writes the results as one document, with the names that nccl-tests gives them. */
void bench_json_write(FILE *out, const struct bench_options *options, char **argv, int ranks,
	const struct bench_results *results);

void bench_files_close(struct bench_files *files);

#endif
