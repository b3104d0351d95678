/* The command line of rondo-train. */
#ifndef TRAIN_OPTIONS_H
#define TRAIN_OPTIONS_H

#include <stdbool.h>
#include <stdint.h>

#include "device.h"
#include "sets.h"

/* What was not given is negative, and comes from the checkpoint, then from the default. */
struct options {
	const char *data; /* where sets are looked for, and drawn */
	const struct set *set; /* NULL: whichever is there */
	bool fetch;
	const char *mirror; /* NULL: where the set is published */
	enum device_kind device; /* where each rank computes */
	int ranks; /* to start here */
	int epochs; /* in all, with those that a resumed checkpoint has behind it */
	int batch; /* images a rank takes in a step */
	int global_batch; /* images all ranks take together; one of the two is given */
	double learning_rate;
	int64_t seed;
	double bucket_mb;
	const char *checkpoint; /* NULL: none is saved */
	const char *resume; /* NULL: from the start */
};

/*
 * Returns 0 when there is something to do. --help and --version print, and return -1; what makes no
 * sense fails.
 */
int options_parse(struct options *options, int argc, char **argv);

#endif
