/*
 * Proofs of algorithms that nobody has proved in a test: those of plug-ins. The checker (checker.h)
 * looks at the plans of all ranks before the first of them is run.
 */
#ifndef RD_PROOF_H
#define RD_PROOF_H

#include <stdbool.h>

#include "rondo/algorithm.h"

/* One proof, now: RONDO_INVALID with the checker's reason, or where may_run() says yes to some ranks
   and no to others. problem->rank is one to which it says yes. */
int rd_prove(const struct rd_algorithm *algorithm, const struct rd_problem *problem);

/* From now on, for good, this algorithm needs a proof. RONDO_MEMORY. */
int rd_proof_demand(const struct rd_algorithm *algorithm);

/*
 * Whether an algorithm may be run for just this problem, whichever rank's it is: where no proof is
 * demanded, or there is one. What is found is kept. What the checker refuses gets a line of WARN
 * with its reason, once.
 */
bool rd_proof_holds(const struct rd_algorithm *algorithm, const struct rd_problem *problem);

#endif
