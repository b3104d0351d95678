/* Curves of runs, from their files of metrics: loss, accuracy and throughput over samples. */
#ifndef TRAIN_CURVES_H
#define TRAIN_CURVES_H

#include <stdio.h>

#define CURVES_RUNS_MAX 7 /* a colour each */

/*
 * Draws `count` runs into one SVG picture. A file's name is the label of its run. Fails for a file
 * that cannot be read, or has no rows. Errors of `out` stick to it.
 */
int curves_draw(FILE *out, const char *const paths[], int count);

#endif
