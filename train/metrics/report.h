/*
 * The output of a training run, like the PyTorch quickstart's. A terminal shows progress in one
 * line that is overwritten; a file gets whole lines only.
 */
#ifndef TRAIN_REPORT_H
#define TRAIN_REPORT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "train/model/model.h"

/* The results of any number of labels, on one rank or on all. */
struct totals {
	double loss; /* sum of cross-entropies */
	double correct;
	double count;
};

struct report {
	FILE *out; /* NULL: this rank prints nothing */
	bool terminal;
	const char *unit; /* of speeds: "images" */
	size_t units; /* of a sample */
	double epoch_start_s;
	size_t epoch_start; /* samples of the epoch that were done then */
	double progress_s; /* when progress was last shown */
};

void report_init(struct report *report, FILE *out);

/* A line of its own. */
void report_line(struct report *report, const char *format, ...)
	__attribute__((format(printf, 2, 3)));
void report_model(struct report *report, const struct model *model);

/* Begins an epoch, of which `done` samples are done. */
void report_epoch(struct report *report, uint64_t epoch, size_t done);
/* Prints the mean loss and the speed since the line before, in samples a second. `done` of the
   epoch's `count` samples are done, and `step` steps of all epochs. */
void report_loss(struct report *report, const struct totals *totals, size_t done, size_t count,
	int64_t step, double speed);
/* For terminals only; cheap enough for every step. */
void report_progress(struct report *report, size_t done, size_t count);
/* After `done` samples of the epoch: prints the speed, and the share of overlapped
   communication. */
void report_speed(struct report *report, size_t done, double busy_s, double wait_s);
void report_test(struct report *report, const struct totals *totals);

#endif
