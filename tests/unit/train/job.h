/*
 * Whole training runs for tests: worlds of forked ranks on a device, and one rank written out, as
 * their reference.
 *
 * The bounds: the ranks' sums are the single rank's in another order. A gradient is a sum of 48
 * products of about 1e-3. Another order changes it by a few units in the last place of its largest
 * terms, 1e-9. Fourteen steps with a rate of 0.5 add these errors up: about 1e-8 for a parameter,
 * and 1e-7 for a loss of 2. The bounds leave a factor of ten. A wrong weight of one image in the
 * last, smaller batch, or a gradient missing from an average, changes the loss by 1e-4 and more.
 */
#ifndef TRAIN_JOB_H
#define TRAIN_JOB_H

#include "train/train.h"

#define IMAGES 290 /* six global batches of 48, and one of 2: fewer than there are ranks */
#define GLOBAL_BATCH 48
#define EPOCH_STEPS 7
#define STEPS (2 * EPOCH_STEPS)
#define TESTS 50
#define PARAMETERS (784 * 512 + 512 + 512 * 512 + 512 + 512 * 10 + 10)
#define RANKS_MAX 8

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
void finish_job(struct job *job);
/* One rank of a job: in a process of rondo_spawn(), or alone without a launcher. */
int run_rank(void *job);
/* The same, in a thread; config NULL: that of the environment. */
int run_rank_as(struct job *job, const struct rondo_config *config, int local_rank);
/* Runs the job on ranks; all must succeed, with the same parameters. */
void run_ranks(struct job *job, int size);
/* Runs two jobs on `size` ranks, which end with the same parameters. Finishes both. */
void expect_same_hash(struct job first, struct job second, int size);
/* All ranks end, and one of them reports this. Finishes the job. */
void expect_failure(struct job *job, int size, const char *reason);

/*
 * The reference of all runs: one rank, written out, with gradients that are means over the images
 * of a step.
 */
void run_plain(struct job *job);
void expect_near(const struct job_outcome *many, const struct job_outcome *one, int size);

#endif
