/*
 * Costs that were measured before: in this process, and in the file that RONDO_TUNE_FILE names.
 * They are kept by key, which says under what conditions they were measured: host, ranks,
 * transports. The file is text; people may write it:
 *
 *   [host1, 8 ranks on 1 host, 2 cores, near shm, far none]
 *   near_way_ns 310 450 ...
 *   ...                         (the lines of rd_costs_print(), all that are not optional)
 */
#ifndef RD_COST_FILE_H
#define RD_COST_FILE_H

#include "tuner/cost.h"

#define RD_TUNE_KEY_SIZE 200

/* True: *costs is what is kept under the key. A file that makes no sense is said in one warning,
   and counts as if it were empty. path "": no file. */
bool rd_tune_find(const char *path, const char *key, struct rd_costs *costs);

/* Keeps them, also in the file, unless that holds something else than costs. What cannot be written
   is said in one warning. */
void rd_tune_keep(const char *path, const char *key, const struct rd_costs *costs);

#endif
