/* A child that is forked while another thread proves an algorithm of a plug-in. */
#include <criterion/criterion.h>

#include "check/proof.h"
#include "held_fork.h"
#include "ring/ring.h"

static bool may_run(const struct rd_problem *problem)
{
	(void)problem;
	held_fork_dwell(); /* the proof asks for each rank, below its lock */
	return true;
}

static struct rd_algorithm brought;

static void prove(void)
{
	struct rd_problem problem = { .collective = RD_ALL_REDUCE, .size = 4 };

	rd_proof_holds(&brought, &problem);
}

Test(proof_fork, a_child_proves_though_a_thread_was_proving, .timeout = 60)
{
	brought = rd_ring;
	brought.may_run = may_run;
	cr_assert_eq(rd_proof_add(&brought), 0);
	fork_while(prove);
}
