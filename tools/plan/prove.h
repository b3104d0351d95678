/* Proofs of an algorithm's plans, with the code of rondo-check. */
#ifndef PLAN_PROVE_H
#define PLAN_PROVE_H

#include "options.h"

/* Prints a line for each collective on standard output. Returns the exit status: 0, 1 where one was
   refused, 3 where one could not be decided; or an error (below 0) with its reason. */
int plan_prove(const struct plan_options *options);

#endif
