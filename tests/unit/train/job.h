/*
 * Whole training runs for tests: worlds of forked ranks on a device, and one rank written out, as
 * their reference.
 */
#ifndef TRAIN_JOB_H
#define TRAIN_JOB_H

#include "train/rounding.h"
#include "train/train.h"

#define IMAGES 290 /* six global batches of 48, and one of 2: fewer than there are ranks */
#define GLOBAL_BATCH 48
#define EPOCH_STEPS 7
#define STEPS (2 * EPOCH_STEPS)
#define TESTS 50
#define PARAMETERS (784 * 512 + 512 + 512 * 512 + 512 + 512 * 10 + 10)
#define RANKS_MAX 8

/*
 * Bounds for two runs that differ in the order of sums alone, at all of their steps. In each step
 * before, the sums of all layers follow each other, forward and backward: `terms` products each
 * way. An error of a logit, whose size is 1 at most, becomes one of the mean loss. A step moves a
 * parameter by `rate` of a gradient of 1 at most, and rounds the result, which is 1 at most.
 *
 * A wrong weight of an image, or a gradient missing from an average, moves a bias of the last layer
 * by a hundredth and more.
 */
#define RUN_LOSS_BOUND(steps, terms) (2 * LIKELY_ROUNDING(2 * (steps) * (terms), 1))
#define RUN_PARAMETER_BOUND(steps, terms, rate) \
	((rate)*RUN_LOSS_BOUND(steps, terms) + 2 * LIKELY_ROUNDING(steps, 1))

#define MLP_TERMS (784 + 512 + 512)
#define MLP_LOSS_BOUND RUN_LOSS_BOUND(STEPS, MLP_TERMS)
#define MLP_PARAMETER_BOUND RUN_PARAMETER_BOUND(STEPS, MLP_TERMS, 0.5)

/* The outcome of a world of ranks, in memory that they share with the test. */
struct job_outcome {
	double losses[STEPS];
	struct totals test;
	uint64_t hashes[RANKS_MAX];
	float parameters[PARAMETERS]; /* rank 0's, of at most so many */
	char reason[512]; /* the reason of a rank that failed */
	char report[8192]; /* the output of rank 0, where job->reports */
};

/* The task of the ranks. */
struct job {
	struct options options;
	int hosts; /* emulated hosts of the ranks */
	bool reports;
	void (*prepare)(int rank); /* NULL, or called first in each rank */
	void (*opened)(struct device *device, int rank); /* likewise, when it has its device */
	void (*before_step)(int rank, int step); /* likewise; not with checkpoints or reports */
	void (*created)(struct train *train); /* NULL, or called after train_create() */
	void (*change)(struct train *train, int step); /* likewise; may change the rank's run */
	void (*before_test)(struct train *train); /* NULL, or called after the last step */
	struct job_outcome *outcome;
};

/* All parameters, without the room between tensors; those of a larger model than mlp have no room,
   and are left out. */
int job_parameters(const struct model *model, float *parameters /* [PARAMETERS] */);

/* A scratch directory with a small set in drawn/. */
void make_data(void);

struct job make_job(void);
/* One rank of a job: in a process of rondo_spawn(), or alone without a launcher. */
int run_rank(void *job);
/* The same, in a thread; config NULL: that of the environment. */
int run_rank_as(struct job *job, const struct rondo_config *config, int local_rank);
/* Runs the job on ranks; all must succeed, with the same parameters. */
void run_ranks(struct job *job, int size);
/* Runs two jobs on `size` ranks, which end with the same parameters. */
void expect_same_hash(struct job first, struct job second, int size);
/* All ranks end, and one of them reports this. */
void expect_failure(struct job *job, int size, const char *reason);

/*
 * The reference of all runs: one rank, written out, with gradients that are means over the images
 * of a step.
 */
void run_plain(struct job *job);
/* `one` is a run of mlp at make_job()'s rate, and `many` differs from it in the order of sums. */
void expect_near(const struct job_outcome *many, const struct job_outcome *one, int size);
/* The losses alone. */
void expect_near_losses(const struct job_outcome *many, const struct job_outcome *one, int size);
/* The greatest difference of two runs' parameters, and the mean one. */
double furthest_parameter(const struct job_outcome *a, const struct job_outcome *b);
double mean_distance(const struct job_outcome *a, const struct job_outcome *b);

#endif
