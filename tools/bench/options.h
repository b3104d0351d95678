/* The command line of rondo-bench. */
#ifndef BENCH_OPTIONS_H
#define BENCH_OPTIONS_H

#include <stdbool.h>
#include <stdio.h>

#include "between.h"
#include "collective.h"

#define BENCH_COUNTS 16 /* in a list of --ranks */

enum bench_average { BENCH_RANK0, BENCH_AVERAGE, BENCH_FASTEST, BENCH_SLOWEST };

struct bench_options {
	const struct bench_collective *collective; /* NULL: one of the three that follow */
	bool floor, init; /* measure the machine's floor; the cost of a comm */
	const char *trace; /* of calls to replay; NULL: none */
	size_t least, most; /* bytes */
	size_t step; /* bytes; used where factor < 2 */
	int factor;
	int iterations, warmup;
	int checks; /* rounds of checking a size; 0: none */
	int launches; /* of a graph of the iterations; 0: no graph */
	bool every_op, every_type, every_root;
	rondo_op op;
	rondo_type type;
	int root;
	int threads; /* ranks in each process */
	int ranks; /* processes to fork; 0: a launcher started this process, or none */
	int counts[BENCH_COUNTS], count_count; /* the numbers of ranks that --ranks lists */
	int gpus; /* of -g; taken as threads */
	int blocking; /* 1: in the caller; 0: on a stream */
	int average; /* enum bench_average */
	bool percentiles;
	struct bench_between between; /* two calls; with any of it, percentiles are set */
	const char *transport, *algo; /* NULL: the library's setting */
	bool device; /* buffers in GPU memory */
	bool registered; /* buffers from rondo_mem_alloc() */
	const char *json, *svg; /* files to write, or NULL */
	bool quick; /* floor: a tenth of the time; sweep: half the rounds */
	bool explains; /* print costs, ways and predictions */
	bool sweep; /* every algorithm against the library's choice */
};

/* False, with one line on stderr, where the arguments are wrong. --help and --version print and
   exit. Texts point into argv. */
bool bench_options_read(struct bench_options *options, int argc, char **argv);

/* The next size, for elements of this type; 0 after the last. */
size_t bench_size_next(const struct bench_options *options, rondo_type type, size_t size);

/* nccl-tests' name of a type, which the table prints: "float" for RONDO_F32. */
const char *bench_type_name(rondo_type type);

#endif
