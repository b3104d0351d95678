/* Plans as files. docs/rondo-plan.md describes the formats. */
#ifndef PLAN_EXPORT_H
#define PLAN_EXPORT_H

#include <stdio.h>

#include "plan/plan_file.h"

/* Writes a plan file: rd_plan_file_read() reads the same again. */
void plan_file_write(const struct rd_plan_file *file, FILE *out);

/* Writes it to the file of this name, or as a program of MSCCL. Returns 0 or an error. */
int plan_file_save(const struct rd_plan_file *file, const char *name, bool as_msccl);

#endif
