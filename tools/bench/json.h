/* The results as JSON, with the names that nccl-tests gives them. */
#ifndef BENCH_JSON_H
#define BENCH_JSON_H

#include "results.h"

/* Writes a JSON string, quotes included; bytes that are not UTF-8 become escapes. */
void bench_json_string(FILE *out, const char *text);

/* Writes one document. argv: the command line, NULL at its end. */
void bench_json_write(FILE *out, const struct bench_options *options, char **argv, int ranks,
	const struct bench_results *results);

#endif
