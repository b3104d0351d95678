/*
 * Proofs at run time, for algorithms of plug-ins, which no test proves. The checker (checker.h)
 * checks the plans of all ranks before the first of them runs.
 */
#ifndef RD_PROOF_H
#define RD_PROOF_H

#include "rondo/algorithm.h"

/* Proves one problem now. RONDO_INVALID with the checker's reason, or where may_run() accepts
   some ranks and refuses others. may_run() must accept problem->rank. */
int rd_prove(const struct rd_algorithm *algorithm, const struct rd_problem *problem);

/* Adds this algorithm to the table, and requires a proof for it, for good. RONDO_MEMORY, or an
   error of rd_algorithm_add(); after an error nothing refers to it. */
int rd_proof_add(const struct rd_algorithm *algorithm);

/*
 * Returns 1 if an algorithm may run this problem, for any of its ranks: it needs no proof, or it
 * has one. Returns 0 if not, or RONDO_MEMORY with its reason recorded: a rank without memory may
 * not decide alone. Verdicts are cached. A refusal is logged once, as WARN, with the checker's
 * reason.
 */
int rd_proof_holds(const struct rd_algorithm *algorithm, const struct rd_problem *problem);

/* Whether it was added by rd_proof_add(). */
bool rd_proof_is_demanded(const struct rd_algorithm *algorithm);

/* Adds the plans of all ranks to a digest, as this process writes them. Returns 0 or an error of
   rd_plan_create(). */
int rd_proof_add_plans(
	const struct rd_algorithm *algorithm, const struct rd_problem *problem, uint64_t *digest);

#endif
