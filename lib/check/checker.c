/*
 * Three proofs make one, for plans with valid fields (fields.h). The first reads each plan alone,
 * in program order: does a step write to memory that another still needs (overwrite.h)? The second
 * runs all plans together, on symbols (symbolic.h). The third runs along with the second, where
 * ranks access each other's memory, and finds races there (races.h).
 *
 * One run stands for all. Each FIFO has one rank that puts in and one that takes out. A step of a
 * rank can therefore enable others that wait, but never prevent them. The order in which the ranks
 * run changes neither their results nor whether they end (G. Kahn, "The semantics of a simple
 * language for parallel programming", 1974).
 *
 * One piece stands for all pieces. In one of the orders all ranks finish a piece, and leave the
 * FIFOs empty, before any begins the next.
 *
 * With direct access all this holds as well, once it is proved that no two ranks access the same
 * memory with nothing to order them. Each rank then reads the same values in every order (S. Adve
 * and M. Hill, "Weak ordering - a new definition", 1990).
 */
#include "check/checker.h"

#include <stdio.h>
#include <stdlib.h>

#include "base/error.h"
#include "check/fields.h"
#include "check/overwrite.h"
#include "check/symbolic.h"
#include "plan/print.h"

struct check {
	struct rd_symbolic run;
	uint64_t *orders; /* all_reduce, by chunk: hash of the first rank's result; 0: none yet */
	int *order_ranks; /* by chunk: that first rank */
};

/* ---- Outputs ------------------------------------------------------------------------------- */

/* The same bits on every rank: the same contributions, combined in the same order. */
static int check_order(struct check *check, int rank, struct rd_symbol value)
{
	uint64_t order = rd_symbol_order(&check->run.symbols, value);

	if (check->run.collective != RD_ALL_REDUCE)
		return 0;
	if (!check->orders[value.chunk]) {
		check->orders[value.chunk] = order;
		check->order_ranks[value.chunk] = rank;
	}
	if (check->orders[value.chunk] == order)
		return 0;
	return rd_fail(RONDO_INVALID,
		"rank %d: chunk %d is not the same bits as on rank %d: combined in another order",
		rank, value.chunk, check->order_ranks[value.chunk]);
}

static int check_output(
	struct check *check, const struct rd_runner *runner, int out_chunk, int chunk)
{
	struct rd_symbol value = runner->out[out_chunk];
	int rank = runner->plan->problem.rank;

	if (value.chunk < 0)
		return rd_fail(RONDO_INVALID, "rank %d: output chunk %d was never written", rank,
			out_chunk);
	if (value.chunk != chunk)
		return rd_fail(RONDO_INVALID, "rank %d: output chunk %d is chunk %d instead of %d",
			rank, out_chunk, value.chunk, chunk);
	if (!rd_collective_reduces(check->run.collective))
		return 0;
	if (rd_symbol_count(&check->run.symbols, value) < check->run.size)
		return rd_fail(RONDO_INVALID,
			"rank %d: rank %d's contribution is not in output chunk %d", rank,
			rd_symbol_missing(&check->run.symbols, value), out_chunk);
	return check_order(check, rank, value);
}

static int check_outputs(struct check *check, const struct rd_runner *runner)
{
	const struct rd_plan *plan = runner->plan;
	int err = 0;

	for (int block = 0; block < rd_blocks(&plan->problem) && !err; block++) {
		int place = rd_out_block(&plan->problem, block);

		for (int part = 0; part < plan->parts && place >= 0 && !err; part++)
			err = check_output(check, runner, place * plan->parts + part,
				block * plan->parts + part);
	}
	return err;
}

/* ---- Ranks that wait in vain --------------------------------------------------------------- */

/* Messages to ranks that have finished. */
static int check_left_over(struct check *check)
{
	for (int i = 0; i < check->run.pipe_count; i++) {
		struct rd_pipe *pipe = &check->run.pipes[i];

		const struct rd_plan *plan = check->run.runners[pipe->from].plan;
		int step;

		if (rd_pipe_is_empty(pipe) || !rd_runner_is_finished(&check->run.runners[pipe->to]))
			continue;
		step = rd_pipe_oldest(pipe)->step;
		return rd_step_wrong(plan, step, "rank %d has finished and never %s it", pipe->to,
			rd_step_is_signal(&plan->steps[step]) ? "awaits" : "receives");
	}
	return 0;
}

/* The ranks from `first` on wait for each other in a circle. */
static int fail_circle(const struct check *check, int first)
{
	char reason[RD_REASON_SIZE], text[160];
	int length = 0;
	int rank = first;

	do {
		const struct rd_runner *runner = &check->run.runners[rank];

		if (length > RD_REASON_SIZE - 200) {
			length += snprintf(reason + length, sizeof(reason) - length, "... for ");
			break;
		}
		rd_step_print(&runner->plan->steps[runner->step], text, sizeof(text));
		length += snprintf(reason + length, sizeof(reason) - length,
			"rank %d, step %d (%s), waits for ", rank, runner->step, text);
		rank = rd_symbolic_waits_for(&check->run, runner);
	} while (rank != first);
	snprintf(reason + length, sizeof(reason) - length, "rank %d", first);
	return rd_fail(RONDO_INVALID, "deadlock: %s", reason);
}

static int deadlock(struct check *check, int rank)
{
	/* No rank is queued any more: the flag marks ranks on the way so far. */
	while (!check->run.runners[rank].queued) {
		struct rd_runner *runner = &check->run.runners[rank];
		int next = rd_symbolic_waits_for(&check->run, runner);

		if (rd_runner_is_finished(&check->run.runners[next]))
			return rd_step_wrong(runner->plan, runner->step,
				"rank %d has finished and never %s it", next,
				rd_step_is_signal(&runner->plan->steps[runner->step]) ? "signals"
										      : "sends");
		runner->queued = true;
		rank = next;
	}
	return fail_circle(check, rank);
}

/* ---- The whole ----------------------------------------------------------------------------- */

static int run_plans(struct check *check)
{
	int err = rd_symbolic_run(&check->run);

	if (!err)
		err = check_left_over(check);
	for (int rank = 0; rank < check->run.size && !err; rank++)
		if (!rd_runner_is_finished(&check->run.runners[rank]))
			err = deadlock(check, rank);
	for (int rank = 0; rank < check->run.size && !err; rank++)
		err = check_outputs(check, &check->run.runners[rank]);
	return err ? err : rd_races_end(&check->run.races);
}

int rd_check_plans(struct rd_plan *const *plans, int size)
{
	size_t chunks = (size_t)rd_blocks(&plans[0]->problem) * plans[0]->parts;
	struct check check = { 0 };
	int err;

	for (int rank = 0; rank < size; rank++) {
		err = rd_check_fields(plans, size, rank);
		if (!err)
			err = rd_check_overwrites(plans[rank]);
		if (err)
			return err;
	}
	check.orders = calloc(chunks, sizeof(*check.orders));
	check.order_ranks = calloc(chunks, sizeof(*check.order_ranks));
	err = rd_symbolic_init(&check.run, plans, size);
	if (!err && (!check.orders || !check.order_ranks))
		err = rd_fail(RONDO_MEMORY, "no memory to check plans for %d ranks", size);
	if (!err)
		err = run_plans(&check);
	rd_symbolic_finish(&check.run);
	free(check.orders);
	free(check.order_ranks);
	return err;
}

int rd_check_algorithm(const struct rd_algorithm *algorithm, enum rd_collective collective,
	int size, int root, int target, const struct rd_layout *layout)
{
	/* unsigned: gcc's -flto -O3 warns of sizes that no caller has. */
	struct rd_plan **plans = calloc((unsigned)size, sizeof(*plans));
	int err = 0;

	if (!plans)
		return rd_fail(RONDO_MEMORY, "no memory for the plans of %d ranks", size);
	for (int rank = 0; rank < size && !err; rank++)
		err = rd_plan_create(&plans[rank], algorithm,
			&(struct rd_problem){ collective, rank, size, root, target, layout });
	if (!err)
		err = rd_check_plans(plans, size);
	if (err)
		err = rd_fail(err, "%s, %s, %d rank%s, root %d, target %d: %s", algorithm->name,
			rd_collective_name(collective), size, RD_PLURAL(size), root, target,
			rondo_last_error());
	for (int rank = 0; rank < size; rank++)
		rd_plan_destroy(plans[rank]);
	free(plans);
	return err;
}
