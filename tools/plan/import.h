/* Programs of other libraries as plan files. docs/rondo-plan.md describes the formats. */
#ifndef PLAN_IMPORT_H
#define PLAN_IMPORT_H

#include "options.h"

/* Reads options->source, proves the plans, and writes them to options->output. Returns 0 or an
   error. */
int plan_import(const struct plan_options *options);

#endif
