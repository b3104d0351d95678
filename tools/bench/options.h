/* The command line of rondo-bench. */
#ifndef BENCH_OPTIONS_H
#define BENCH_OPTIONS_H

#include <stdbool.h>
#include <stdio.h>

#include "collective.h"

enum bench_average { BENCH_RANK0, BENCH_AVERAGE, BENCH_FASTEST, BENCH_SLOWEST };

struct bench_options {
	const struct bench_collective *collective; /* NULL: one of the two that follow */
	bool floor, init; /* measure the machine's floor; what a comm costs */
	size_t least, most; /* bytes */
	size_t step; /* bytes; used where factor < 2 */
	size_t factor;
	int iterations, warmup;
	int checks; /* rounds of checking a size; 0: none */
	bool every_op, every_type, every_root;
	rondo_op op;
	rondo_type type;
	int root;
	int threads; /* ranks in each process */
	int ranks; /* processes to fork; 0: a launcher started this process, or none */
	int gpus; /* of -g; taken as threads */
	bool blocking; /* else on a stream */
	enum bench_average average;
	bool percentiles;
	const char *transport, *algo; /* NULL: the library's setting */
	bool device; /* buffers in GPU memory */
	bool registered; /* buffers from rondo_mem_alloc() */
	const char *json, *svg; /* files to write, or NULL */
	bool quick; /* floor: a tenth of the time; contest: half the rounds */
	bool explains; /* print costs, ways and predictions */
	bool contest; /* every algorithm against the library's choice */
};

/* What to do after reading the command line. */
enum bench_verdict { BENCH_RUN, BENCH_HELP, BENCH_VERSION, BENCH_REFUSE };

/*
 * Fills in the options, defaults first. On BENCH_REFUSE, `complaint` holds one line that says what
 * is wrong and what would be right. The options point into argv.
 */
enum bench_verdict bench_options_read(struct bench_options *options, int argc, char **argv,
	char *complaint, size_t complaint_size);

void bench_options_help(FILE *out);

/* "128M" -> bytes, K, M and G being powers of 1024; false when it is no size. */
bool bench_size_parse(const char *text, size_t *size);

/* The size that follows; 0 after the last. */
size_t bench_size_next(const struct bench_options *options, size_t size);

/* nccl-tests' name of a type, which the table prints: "float" for RONDO_F32. */
const char *bench_type_name(rondo_type type);

#endif
