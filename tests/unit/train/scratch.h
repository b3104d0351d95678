/* A directory for a test to write into, and files of data sets and metrics there. */
#ifndef TRAIN_SCRATCH_H
#define TRAIN_SCRATCH_H

#include <stddef.h>

#include "train/data/data.h"
#include "train/metrics/row.h"

/* Makes one; scratch_path() names files in it. */
void scratch_make(void);
/* Removes it with all that is in it. */
void scratch_remove(void);
/* "DIR/name", valid until the 32nd call after; "" is the directory itself. */
const char *scratch_path(const char *name);
/* Writes a file. */
void scratch_write(const char *name, const void *bytes, unsigned long size);
/* How many files and directories lie under it. */
int scratch_count(void);

/* ---- Data sets ---- */

#define FILES_WINDOW 8 /* of a text */

void files_gzip(const char *name, const void *bytes, unsigned size);
/* Reads at most `room` bytes of a file; returns their number. */
size_t files_read(const char *name, void *bytes, size_t room);

/* The source of a kind at a name in the scratch directory. */
struct data_source files_source(const struct data_kind *kind, const char *name);
struct data *files_open(const struct data_kind *kind, const char *name, enum data_part part);
/* Opening it fails, in one line with the file and this reason. */
void files_refuse(const struct data_kind *kind, const char *name, enum data_part part,
	const char *file, const char *reason);

/* The entropy of a file's bytes, in nats: no model that ignores the bytes before has a mean loss
   below it. */
double entropy_of_bytes(const char *path);

/* ---- Metrics ---- */

struct rows {
	struct metrics_row rows[64]; /* [count] */
	size_t count;
	long size; /* bytes of whole lines, with the first of a CSV file */
};

/* Reads those of whole lines, as the format of the path's end has them. */
struct rows read_rows(const char *path);

#endif
