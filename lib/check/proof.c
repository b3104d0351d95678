#include "check/proof.h"

#include <stdlib.h>

#include "check/checker.h"
#include "base/error.h"
#include "base/fork_lock.h"
#include "base/hash.h"
#include "base/log.h"
#include "exec/algorithms.h"
#include "plan/plan_file.h"
#include "plan/print.h"

/* One problem, of all ranks, and the checker's verdict. */
struct verdict {
	struct verdict *next;
	struct rd_problem
		problem; /* rank and layout do not count: the digest stands for the layout */
	uint64_t layout;
	bool holds;
};

struct claim {
	struct claim *next;
	const struct rd_algorithm *algorithm;
	struct verdict *verdicts;
};

static struct claim *_Atomic claims; /* only ever grows */
/* Guards verdicts, and additions to claims. A proof holds it long: a child must not wait for one
   that its parent makes. */
static struct rd_fork_lock lock = RD_FORK_LOCK(RD_FORK_LEAF);

static int demand(const struct rd_algorithm *algorithm)
{
	struct claim *claim = calloc(1, sizeof(*claim));

	if (!claim)
		return rd_fail(RONDO_MEMORY, "no memory to prove %s", algorithm->name);
	claim->algorithm = algorithm;
	rd_fork_lock(&lock);
	claim->next = claims;
	claims = claim;
	rd_fork_unlock(&lock);
	return 0;
}

/* The room first: a claim stays. */
int rd_proof_add(const struct rd_algorithm *algorithm)
{
	int err = rd_algorithms_check_room();

	if (!err)
		err = demand(algorithm);
	return err ? err : rd_algorithm_add(algorithm);
}

/* Layouts live as long as their comms, so an address does not identify one. */
static uint64_t digest(const struct rd_layout *layout)
{
	uint64_t hash = RD_HASH_INIT;

	if (!layout)
		return 0;
	hash = rd_hash(hash, layout->order, (size_t)layout->size * sizeof(*layout->order));
	return rd_hash(hash, layout->group, (size_t)layout->size * sizeof(*layout->group));
}

static bool same(const struct verdict *verdict, const struct rd_problem *problem, uint64_t layout)
{
	return verdict->problem.collective == problem->collective &&
	       verdict->problem.size == problem->size && verdict->problem.root == problem->root &&
	       verdict->problem.target == problem->target && verdict->layout == layout;
}

/* may_run() must return the same on every rank: else some ranks would run another algorithm. */
static int check_claim(const struct rd_algorithm *algorithm, const struct rd_problem *problem)
{
	struct rd_problem there = *problem;

	for (there.rank = 0; there.rank < problem->size; there.rank++)
		if (!rd_algorithm_claims(algorithm, &there))
			return rd_fail(RONDO_INVALID,
				"%s, %s, %d rank%s, root %d: may_run() says yes to rank %d, no to "
				"rank %d",
				algorithm->name, rd_collective_name(problem->collective),
				problem->size, RD_PLURAL(problem->size), problem->root,
				problem->rank, there.rank);
	return 0;
}

int rd_prove(const struct rd_algorithm *algorithm, const struct rd_problem *problem)
{
	int err = check_claim(algorithm, problem);

	return err ? err
		   : rd_check_algorithm(algorithm, problem->collective, problem->size,
			     problem->root, problem->target, problem->layout);
}

static int prove(const struct rd_algorithm *algorithm, const struct rd_problem *problem)
{
	int err = rd_prove(algorithm, problem);

	if (err == RONDO_MEMORY)
		return err;
	if (err)
		rd_log(RD_WARN, RD_PICK, "algorithm %s is not used for this: %s", algorithm->name,
			rondo_last_error());
	else
		rd_log(RD_INFO, RD_PICK, "algorithm %s is proved: %s on %d rank%s, root %d",
			algorithm->name, rd_collective_name(problem->collective), problem->size,
			RD_PLURAL(problem->size), problem->root);
	return !err;
}

static int find_or_prove(struct claim *claim, const struct rd_problem *problem)
{
	uint64_t layout = digest(problem->layout);
	struct verdict *verdict;

	for (verdict = claim->verdicts; verdict; verdict = verdict->next)
		if (same(verdict, problem, layout))
			return verdict->holds;
	verdict = calloc(1, sizeof(*verdict));
	if (!verdict)
		return rd_fail(RONDO_MEMORY, "no memory to prove %s", claim->algorithm->name);

	int holds = prove(claim->algorithm, problem);

	if (holds < 0) {
		free(verdict);
		return holds;
	}
	verdict->problem = *problem;
	verdict->problem.layout = NULL;
	verdict->layout = layout;
	verdict->holds = holds;
	verdict->next = claim->verdicts;
	claim->verdicts = verdict;
	return holds;
}

static struct claim *find_claim(const struct rd_algorithm *algorithm)
{
	struct claim *claim = claims;

	while (claim && claim->algorithm != algorithm)
		claim = claim->next;
	return claim;
}

bool rd_proof_is_demanded(const struct rd_algorithm *algorithm)
{
	return find_claim(algorithm) != NULL;
}

int rd_proof_add_plans(
	const struct rd_algorithm *algorithm, const struct rd_problem *problem, uint64_t *digest)
{
	struct rd_problem there = *problem;
	struct rd_plan *plan;

	for (there.rank = 0; there.rank < problem->size; there.rank++) {
		int err = rd_plan_create(&plan, algorithm, &there);

		if (err)
			return err;
		*digest = rd_plan_digest(plan, *digest);
		rd_plan_destroy(plan);
	}
	return 0;
}

int rd_proof_holds(const struct rd_algorithm *algorithm, const struct rd_problem *problem)
{
	struct claim *claim = find_claim(algorithm);

	if (!claim)
		return 1;
	rd_fork_lock(&lock);
	int holds = find_or_prove(claim, problem);

	rd_fork_unlock(&lock);
	return holds;
}
