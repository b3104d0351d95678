/* The command line of rondo-train. */
#ifndef TRAIN_OPTIONS_H
#define TRAIN_OPTIONS_H

#include <stdbool.h>
#include <stdint.h>

#include "train/data/sets.h"
#include "train/metrics/metrics.h"
#include "train/model/networks.h"

#define OPTIONS_MAX 128

/* Elements of gradients on their way. */
enum compress { COMPRESS_NO, COMPRESS_F16, COMPRESS_BF16 };

enum precision { PRECISION_F32, PRECISION_BF16, PRECISION_F16 };

/* Negative: not given. The checkpoint, else the model, sets it. */
struct options {
	const char *data; /* the folder of sets, or a text */
	const char *test_data; /* the text to test on; NULL: a part of data */
	const struct set *set; /* NULL: any */
	bool fetch;
	const char *mirror; /* NULL: the set's publisher */
	const struct network *network; /* NULL: not given */
	int tokens; /* of a sample of a text; 0: the network's default */
	int tensor, pipeline; /* ranks that share layers, and stages, of a replica */
	int workers; /* threads of each rank that gather batches */
	int ranks; /* to start on this host */
	int threads; /* of each process, each a rank */
	int device; /* enum device_kind, on which each rank computes */
	int64_t steps; /* of this run, then it stops; 0: those of its epochs */
	int epochs; /* in all, including those of a resumed checkpoint */
	int batch; /* samples of a micro-batch of a rank */
	int global_batch; /* samples all ranks take together; one of the two is given */
	int64_t seed;
	bool no_shuffle; /* each epoch takes the samples in the order of the set */
	double bucket_mb;
	bool no_overlap; /* all buckets are sent after backward */
	bool zero; /* each rank holds a part of the optimizer's state */
	bool deterministic; /* the same bits on any number of ranks */
	int shards; /* of a global batch, with that */
	int accumulate; /* micro-batches of a step on each rank */
	int compress; /* enum compress */
	int64_t report_every; /* steps of a line with a loss, and of a row of metrics */
	bool bucket_report; /* after each epoch */
	int64_t stragglers; /* steps between reports; 0: none */
	int64_t check_every; /* steps between comparisons of parameters; 0: never */
	int precision; /* of products: enum precision */
	bool sync_norm; /* batch norm over the samples of all ranks */
	int optimizer; /* enum optimizer_kind */
	double learning_rate;
	double momentum;
	bool nesterov;
	double weight_decay;
	double beta1, beta2;
	double clip; /* 0: never */
	int schedule; /* enum schedule_kind */
	int lr_period; /* epochs */
	double lr_gamma, min_lr;
	int warm_up; /* steps */
	const char *checkpoint; /* NULL: none is saved */
	const char *resume; /* NULL: from the start */
	bool auto_resume; /* resume is the checkpoint, where there is one */
	bool shrink; /* go on after the death of a rank */
	const char *export; /* the model's file for others; NULL: none */
	struct metrics_files metrics;
	const char *trace; /* NULL: none */
	bool given[OPTIONS_MAX]; /* by the command line: rows of option_table */
};

/*
 * Returns 0 if there is something to do; fails for wrong arguments. --help and --version print, and
 * return -1.
 */
int options_parse(struct options *options, int argc, char **argv);
/* Once all options are set: fails for one that the command line gives and that has no effect. */
int options_refuse_idle(const struct options *options);

#endif
