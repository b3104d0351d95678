/* Files of data sets in the scratch directory, for tests. */
#ifndef TRAIN_TEST_FILES_H
#define TRAIN_TEST_FILES_H

#include <stddef.h>

#include "train/data/data.h"

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

#endif
