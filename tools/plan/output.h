/* Files that rondo-plan writes. "-" is standard output. */
#ifndef PLAN_OUTPUT_H
#define PLAN_OUTPUT_H

#include <stdio.h>

/* NULL, with its reason recorded. */
FILE *plan_output_open(const char *name);
/* Returns 0, or an error where something was not written. */
int plan_output_close(FILE *file, const char *name);

#endif
