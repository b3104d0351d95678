/* A training run on one rank of a world, from data to checkpoint. */
#ifndef TRAIN_TRAIN_H
#define TRAIN_TRAIN_H

#include "train/data/loader.h"
#include "train/checkpoint/saver.h"
#include "train/data/data.h"
#include "train/parallel/ddp.h"
#include "train/parallel/groups.h"
#include "train/parallel/hook.h"
#include "train/parallel/pipeline.h"
#include "train/parallel/running.h"
#include "train/parallel/straggler.h"
#include "train/model/model.h"
#include "train/interrupt.h"
#include "train/options.h"
#include "train/metrics/metrics.h"
#include "train/metrics/report.h"
#include "train/optim/loss_scale.h"
#include "train/optim/optimizer.h"
#include "train/optim/schedule.h"
#include "train/metrics/trace.h"
#include "train/data/sampler.h"
#include "train/world/world.h"

/* The batches of a part of the data. */
struct feed {
	struct loader *loader;
	struct batch *batches; /* [batch_count], the loader's */
	int batch_count;
};

/* Copies on the host, for the saver; NULL until the first save. */
struct snapshot {
	float *parameters, *buffers, *state[2];
};

struct train {
	struct options options; /* all options set */
	const struct groups *groups;
	const struct train_world *world; /* groups->world */
	struct device *device;
	struct report *report;
	struct metrics *metrics; /* NULL: no files, or not rank 0 */
	struct trace *trace; /* NULL: off */
	struct data *train_data, *test_data;
	struct sampler *train_sampler, *test_sampler;
	struct model *model;
	struct ddp *ddp;
	struct pipeline *pipeline; /* NULL: one stage */
	struct compression *compression; /* NULL: none */
	struct straggler straggler;
	struct running *running; /* NULL: ranks keep their own */
	int micro_batches; /* parts of this rank's share of a step */
	struct micro_batch *parts; /* [micro_batches] */
	/* This rank's part of the steps since train_totals(). */
	double *losses; /* [micro_batches][2], on the device: see model_loss() */
	struct totals *micro_totals; /* [micro_batches]; until then the counts alone */
	struct optimizer *optimizer;
	struct loss_scale loss_scale; /* of --precision f16 */
	struct schedule schedule; /* of the learning rate */
	struct feed train_feed, test_feed;
	/* This rank's share of a step, on the device: [batch][input_count] and
	   [batch][label_count]. */
	void *inputs;
	int32_t *labels;
	uint64_t epochs; /* epochs done */
	int64_t resumed_samples; /* of the next one, in the checkpoint */
	struct stored resumed; /* the checkpoint; tensors: on rank 0, while the run is created */
	struct saver *saver; /* NULL: nothing was saved yet */
	struct snapshot snapshot;
	int64_t saved_step; /* of the last save */
	struct interrupt interrupt;
	bool stops; /* SIGTERM came */
	struct recovery *recovery; /* where steps are kept (recovery.h); NULL: nowhere */
	int64_t step; /* steps done, of all epochs */
	int64_t last_step; /* the run ends there at the latest */
};

/*
 * Loads the data, creates the model (from options->resume, if given) and the rest. Collective, as
 * all that follows.
 */
int train_create(struct train **train, const struct options *options, const struct groups *groups,
	struct device *device, struct report *report);
void train_destroy(struct train *train);

/* Runs one step on all ranks. */
int train_step(struct train *train, size_t step);
/* The totals of the steps since the last call, over all ranks. Waits for the steps. */
int train_totals(struct train *train, struct totals *totals);
/* Whether all epochs, or all of --steps, are done, or SIGTERM came. */
bool train_done(const struct train *train);
/* Whether SIGTERM came before. */
bool train_stopped(const struct train *train);
/* Runs one epoch: all steps, the reports, the test, the checkpoint. If --steps ends it early, the
   steps and the speed alone; if SIGTERM does, a checkpoint, too. */
int train_epoch(struct train *train);
/* The totals of the test set, over all ranks. */
int train_test(struct train *train, struct totals *totals);
/* The hash of the parameters; fails if ranks differ. */
int train_hash(struct train *train, uint64_t *hash);
/* After the last epoch: waits for the checkpoint, exports the model, writes the trace. After
   SIGTERM: waits until the checkpoint is there for all ranks. */
int train_finish(struct train *train);

/* The parts of a step that its beginning shares. */

/* Cuts this rank's share of the step into its micro-batches, train->parts. */
void step_cut(struct train *train, const struct sampler *sampler, size_t step);
/* Forgets the losses so far. */
void step_clear(struct train *train);

#endif
