/*
 * Plan files (plan/plan_file.h) as algorithms of this process, until it ends. One caller at a time:
 * plugin.c holds a lock.
 */
#ifndef RD_PLAN_FILES_H
#define RD_PLAN_FILES_H

#include "plan/plan_file.h"

/*
 * Reads a file, proves its plans, and adds its algorithm, unless this process has done so before.
 * An error with its reason, which names the file, where it cannot be read, its plans do not hold,
 * or its name is taken. Files of one name serve different problems.
 */
int rd_plan_files_add(const char *path, const struct rd_plan_file **file);

/* Adds those of a list with commas. A folder stands for its files *.json, in the order of their
   names. */
int rd_plan_files_load(const char *list);

/* The files that were added, by number; NULL behind the last. */
const struct rd_plan_file *rd_plan_files_at(int number);

#endif
