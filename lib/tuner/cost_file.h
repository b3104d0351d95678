/*
 * Costs that were measured before: in this process, and in the file that RONDO_TUNE_FILE names.
 * The key holds the conditions of the measurement: host, ranks, transports. The file is text, and
 * users may edit it:
 *
 *   [host1, 8 ranks on 1 host, 2 shared cores, near shm, far none]
 *   near_way_ns 310 450 ...
 *   ...                         (the lines of rd_costs_print(), all that are not optional)
 *
 * A file of rows (tuner_rows.h) has no costs, and gets none.
 */
#ifndef RD_COST_FILE_H
#define RD_COST_FILE_H

#include "tuner/cost.h"

#define RD_COST_KEY_SIZE 256

/* Reads the whole file, which the caller frees. NULL: there is none, or it is no text of at most
   1 MiB (*wrong holds the reason, and is else NULL). */
char *rd_cost_file_text(const char *path, const char **wrong);

/* Looks a key up. True: *costs is set. A malformed file is logged in one warning, and counts as
   empty. path "": no file. */
bool rd_cost_file_find(const char *path, const char *key, struct rd_costs *costs);

/* Keeps costs under a key, also in the file, unless that holds something other than costs. A
   failure to write is logged in one warning. */
void rd_cost_file_keep(const char *path, const char *key, const struct rd_costs *costs);

#endif
