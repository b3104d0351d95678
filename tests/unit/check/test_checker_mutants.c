/*
 * Mutants: each field of each step of each valid plan takes each other value. The checker must
 * refuse the mutant. A mutant that it accepts must compute the right numbers all the same.
 */
#include <criterion/criterion.h>

#include "check/checker.h"
#include "mutants.h"
#include "tuner/eligible.h"

static const char *const change_names[STEP_CHANGES] = {
	[PEER] = "peer",
	[TO] = "to",
	[CHUNK] = "chunk",
	[OTHER] = "other",
	[KIND] = "kind",
	[LAST] = "last",
	[FROM] = "from",
	[FROM_MEMORY] = "from memory",
	[INTO] = "into",
	[INTO_MEMORY] = "into memory",
	[SENDER] = "sender",
	[DROP] = "drop",
	[SWAP] = "swap",
};

/* The number of values of a field of a step, for a rotation through all of them. */
static int ways(const struct rd_plan *plan, int i, enum change change)
{
	const struct rd_step *step = &plan->steps[i];

	switch (change) {
	case PEER:
		return rd_step_takes(step) || step->kind == RD_STEP_FETCH ||
				       step->kind == RD_STEP_SWAP || step->kind == RD_STEP_SPREAD
			       ? plan->problem.size
			       : 0;
	case TO:
		if (step->kind == RD_STEP_COMBINE)
			return plan->problem.size + 1;
		return rd_step_puts(step) ? plan->problem.size : 0;
	case CHUNK:
		return step->kind == RD_STEP_FLUSH ? 0 : rd_blocks(&plan->problem) * plan->parts;
	case OTHER:
		return step->kind == RD_STEP_SWAP ? rd_blocks(&plan->problem) * plan->parts : 0;
	case KIND:
		return RD_STEP_SPREAD + 1;
	case LAST:
		return rd_step_reduces(step) || step->kind == RD_STEP_COMBINE ? 2 : 0;
	case FROM:
		/* An input of another rank may have more chunks than ours. */
		if (rd_step_is_direct(step))
			return rd_blocks(&plan->problem) * plan->parts + 1;
		return rd_step_reads(step) ? rd_plan_chunks(plan, step->from.memory) : 0;
	case FROM_MEMORY:
		return rd_step_reads(step) || rd_step_is_direct(step) ? RD_SCRATCH + 1 : 0;
	case INTO:
		if (rd_step_is_direct(step))
			return rd_blocks(&plan->problem) * plan->parts + 1;
		return rd_step_writes(step) ? rd_plan_chunks(plan, step->into.memory) : 0;
	case INTO_MEMORY:
		return rd_step_receives(step) || step->kind == RD_STEP_COPY ||
				       rd_step_is_direct(step)
			       ? RD_SCRATCH + 1
			       : 0;
	case SENDER:
		return step->kind == RD_STEP_FLUSH ? plan->step_count : 0;
	case DROP:
		return 2;
	default:
		return i + 1 < plan->step_count ? 2 : 0;
	}
}

/* way: 1 to ways() - 1; 0 would leave the step as it is. */
static void mutate(struct rd_plan *plan, int i, enum change change, int way)
{
	const struct rd_step *step = &plan->steps[i];
	int first = change == TO && step->kind == RD_STEP_COMBINE ? -1 : 0;
	int values = ways(plan, i, change);
	struct edit edit = { .step = i, .change = change };

	if (change != DROP && change != SWAP)
		edit.value = (step_get(step, change) - first + way) % values + first;
	edit_plan(plan, &edit);
}

static bool runs_right(struct simulated_job *job, bool zero_copy, uint64_t seed)
{
	struct rd_simulation set = {
		.size = job->size,
		.channels = 2,
		.piece_size = 64,
		.slots = 2,
		.zero_copy = zero_copy,
		.seed = seed,
		.latency_ns = 1000,
		.jitter_ns = 100000,
		.dead_rank = -1,
	};
	struct rd_simulated simulated;
	bool right = !job_simulate(job, &set, &simulated);

	for (int rank = 0; rank < job->size && simulated.errors; rank++)
		right &= !simulated.errors[rank];
	rd_simulated_finish(&simulated);
	return right && job_is_right(job);
}

/* No rank leaves a barrier that one rank never enters. */
static bool waits_for_everyone(struct simulated_job *job)
{
	struct rd_simulation set = {
		.size = job->size, .channels = 1, .piece_size = 64, .slots = 2, .latency_ns = 1000
	};
	bool all_failed = true;

	for (int absent = 0; absent < job->size; absent++) {
		struct rd_simulated simulated;

		set.dead_rank = absent;
		job_simulate(job, &set, &simulated);
		for (int rank = 0; rank < job->size; rank++)
			all_failed &= simulated.errors[rank] != 0;
		rd_simulated_finish(&simulated);
	}
	return all_failed;
}

/* Fills the memory again for each run: in place the input does not survive. */
static void lay_out_again(struct simulated_job *job, bool in_place)
{
	job->in_place = in_place;
	for (int rank = 0; rank < job->size; rank++) {
		free(job->memory[2 * rank]);
		free(job->memory[2 * rank + 1]);
		job_lay_out(job, rank);
	}
}

static bool is_right_on_numbers(struct simulated_job *job)
{
	for (int times = 0; times < 16; times++) {
		lay_out_again(job, times & 1);
		if (!runs_right(job, times >> 1 & 1, times))
			return false;
	}
	return job->collective != RD_BARRIER || waits_for_everyone(job);
}

/*
 * The changes that may leave a plan valid. Two independent steps may swap. A barrier averages
 * nothing. A forwarded value may also be stored where no step reads it. Between two ranks a SPREAD
 * of the other's chunk is a FETCH.
 */
static bool may_be_accepted(
	const struct simulated_job *job, enum change change, const struct rd_step *original)
{
	return change == SWAP || (change == LAST && job->collective == RD_BARRIER) ||
	       (change == KIND && job->size == 2 &&
		       (original->kind == RD_STEP_SPREAD || original->kind == RD_STEP_FETCH)) ||
	       (change == INTO_MEMORY && original->into.memory == RD_NOWHERE);
}

struct tally {
	int mutants, accepted;
};

static void try_mutant(struct simulated_job *job, int rank, int i, enum change change, int way,
	struct tally *tally)
{
	struct rd_plan *plan = job->plans[rank];
	struct rd_step saved[256];
	int step_count = plan->step_count;

	memcpy(saved, plan->steps, step_count * sizeof(*saved));
	mutate(plan, i, change, way);
	tally->mutants++;
	if (!rd_check_plans(job->plans, job->size)) {
		tally->accepted++;
		cr_expect(may_be_accepted(job, change, &saved[i]),
			"accepted: %s of %d, rank %d, step %d, %s",
			rd_collective_name(job->collective), job->size, rank, i,
			change_names[change]);
		cr_expect(is_right_on_numbers(job),
			"accepted: %s of %d, root %d, rank %d, step %d, %s changed by %d: %s",
			rd_collective_name(job->collective), job->size, job->root, rank, i,
			change_names[change], way, job->reason);
	}
	memcpy(plan->steps, saved, step_count * sizeof(*saved));
	plan->step_count = step_count;
}

static void try_mutants_of(struct simulated_job *job, struct tally *tally)
{
	for (int rank = 0; rank < job->size; rank++)
		for (int i = 0; i < job->plans[rank]->step_count; i++)
			for (int change = PEER; change < STEP_CHANGES; change++)
				for (int way = 1; way < ways(job->plans[rank], i, change); way++)
					try_mutant(job, rank, i, change, way, tally);
}

static void try_mutants(const struct rd_algorithm *algorithm, enum rd_collective collective,
	int size, int root, struct tally *tally)
{
	struct simulated_job job = { .collective = collective,
		.size = size,
		.root = root,
		.type = RONDO_I64,
		.op = RONDO_AVG,
		.count = collective == RD_BARRIER ? 0 : 50 };
	struct rd_problem problem;

	if (collective == RD_TRANSFER)
		job.target = rd_wrap(root + 1, size);
	problem = job_problem(&job, 0);
	if (!rd_algorithm_can(algorithm, &problem))
		return;
	cr_assert(job_create(&job, algorithm->name), "%s", rondo_last_error());
	cr_assert(is_right_on_numbers(&job), "%s", job.reason);
	try_mutants_of(&job, tally);
	job_destroy(&job);
}

Test(checker, refuses_every_mutant_of_a_right_plan_that_gives_wrong_numbers, .timeout = 240)
{
	struct tally tally = { 0 };

	for (int i = 0; rd_algorithms[i]; i++)
		for (int c = 0; c < RD_COLLECTIVE_COUNT; c++)
			for (int size = 2; size <= 5; size++)
				for (int root = 0; root < size; root += size - 1)
					try_mutants(rd_algorithms[i], c, size, root, &tally);
	cr_expect_gt(tally.mutants, 10000);
	cr_expect_lt(tally.accepted, tally.mutants / 20, "%d of %d", tally.accepted, tally.mutants);
}
