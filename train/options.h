/* The command line of rondo-train. */
#ifndef TRAIN_OPTIONS_H
#define TRAIN_OPTIONS_H

#include <stdbool.h>
#include <stdint.h>

#include "train/device/device.h"
#include "train/data/sets.h"
#include "train/metrics/metrics.h"

/* Negative: not given. The checkpoint, else a default, sets it. */
struct options {
	const char *data; /* the folder of sets */
	const struct set *set; /* NULL: any */
	bool fetch;
	const char *mirror; /* NULL: the set's publisher */
	enum device_kind device; /* on which each rank computes */
	int ranks; /* to start on this host */
	int epochs; /* in all, including those of a resumed checkpoint */
	int batch; /* images a rank takes in a step */
	int global_batch; /* images all ranks take together; one of the two is given */
	double learning_rate;
	int64_t seed;
	double bucket_mb;
	const char *checkpoint; /* NULL: none is saved */
	const char *resume; /* NULL: from the start */
	struct metrics_files metrics;
	const char *trace; /* NULL: none */
};

/*
 * Returns 0 if there is something to do; fails for wrong arguments. --help and --version print, and
 * return -1.
 */
int options_parse(struct options *options, int argc, char **argv);

#endif
