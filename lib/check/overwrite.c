#include "check/overwrite.h"

#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "plan/print.h"

/*
 * The plan's memory in place, where an output chunk may be an input chunk. Out of place it has
 * fewer conflicts, but for a copy of a chunk onto itself.
 */
struct memory {
	const struct rd_plan *plan;
	int in_chunks, cells;
	int *aliases; /* by output chunk: its cell */
	int *overwriters; /* by cell: the step that overwrote an input; -1: none */
	int *readers; /* by cell: the last step that sends from it; -1: none */
	int *next_readers; /* by step: an earlier one that sends from the same cell; -1: none */
	int *flushes; /* by step: the step that flushed it; -1: none */
};

static int cell_of(const struct memory *memory, struct rd_where where)
{
	switch (where.memory) {
	case RD_IN:
		return where.chunk;
	case RD_OUT:
		return memory->aliases[where.chunk];
	default:
		return memory->cells - memory->plan->scratch_chunks + where.chunk;
	}
}

/* Whether it reads, or writes, memory of this rank. */
static bool reads_here(const struct rd_step *step)
{
	return rd_step_reads(step) || step->kind == RD_STEP_COMBINE;
}

static bool writes_here(const struct rd_plan *plan, const struct rd_step *step)
{
	if (step->kind == RD_STEP_COMBINE)
		return step->to < 0 || step->to == plan->problem.rank;
	return rd_step_writes(step) || step->kind == RD_STEP_FETCH || step->kind == RD_STEP_SWAP ||
	       step->kind == RD_STEP_SPREAD;
}

static int check_read(const struct memory *memory, int i)
{
	const struct rd_step *step = &memory->plan->steps[i];
	int overwriter;

	if (!reads_here(step) || step->from.memory != RD_IN)
		return 0;
	overwriter = memory->overwriters[step->from.chunk];
	if (overwriter < 0)
		return 0;
	return rd_step_wrong(
		memory->plan, i, "in place, step %d has overwritten this input", overwriter);
}

static int check_write(struct memory *memory, int i)
{
	const struct rd_plan *plan = memory->plan;
	const struct rd_step *step = &plan->steps[i];
	int cell = cell_of(memory, step->into);
	/* In place it writes nothing; out of place, sends from the input do not matter. */
	bool own = step->kind == RD_STEP_COPY ||
		   (step->kind == RD_STEP_SPREAD && step->peer == plan->problem.rank);
	bool onto_itself = own && cell_of(memory, step->from) == cell;

	for (int s = memory->readers[cell]; s >= 0; s = memory->next_readers[s]) {
		const struct rd_step *sender = &plan->steps[s];

		/* A FLUSH of a later message on the same link is not enough: the step of an empty
		   chunk sends nothing, and its FLUSH waits for nothing. */
		if (memory->flushes[s] >= 0)
			continue;
		if (onto_itself && sender->kind == RD_STEP_SEND && sender->from.memory == RD_IN)
			continue;
		return rd_step_wrong(plan, i,
			"it overwrites what step %d may still be sending, with no flush between",
			s);
	}
	if (onto_itself)
		return 0;
	memory->readers[cell] = -1;
	if (cell < memory->in_chunks)
		memory->overwriters[cell] = i;
	return 0;
}

static void record_send(struct memory *memory, int i)
{
	const struct rd_step *step = &memory->plan->steps[i];
	struct rd_where from = step->kind == RD_STEP_SEND ? step->from : step->into;
	int cell;

	/* The value goes from message to message, without memory. */
	if (from.memory == RD_NOWHERE)
		return;
	cell = cell_of(memory, from);
	memory->next_readers[i] = memory->readers[cell];
	memory->readers[cell] = i;
}

static int memory_init(struct memory *memory, const struct rd_plan *plan)
{
	int out_chunks = rd_plan_chunks(plan, RD_OUT);
	int numbers;

	memory->plan = plan;
	memory->in_chunks = rd_plan_chunks(plan, RD_IN);
	memory->cells = memory->in_chunks + out_chunks + plan->scratch_chunks;
	numbers = out_chunks + 2 * memory->cells + 2 * plan->step_count;
	/* One more: an allocation of nothing may give NULL. */
	memory->aliases = malloc((numbers + 1) * sizeof(int));
	if (!memory->aliases)
		return rd_fail(RONDO_MEMORY, "no memory to check a plan");
	memset(memory->aliases, 0xff, numbers * sizeof(int)); /* -1 */
	memory->overwriters = memory->aliases + out_chunks;
	memory->readers = memory->overwriters + memory->cells;
	memory->next_readers = memory->readers + memory->cells;
	memory->flushes = memory->next_readers + plan->step_count;
	for (int chunk = 0; chunk < out_chunks; chunk++) {
		int alias = rd_alias_block(&plan->problem, chunk / plan->parts);

		memory->aliases[chunk] = alias < 0 ? memory->in_chunks + chunk
						   : alias * plan->parts + chunk % plan->parts;
	}
	return 0;
}

int rd_check_overwrites(const struct rd_plan *plan)
{
	struct memory memory = { 0 };
	int err = memory_init(&memory, plan);

	if (err)
		return err;
	for (int i = 0; i < plan->step_count && !err; i++) {
		const struct rd_step *step = &plan->steps[i];

		if (step->kind == RD_STEP_FLUSH) {
			memory.flushes[step->sender] = i;
			continue;
		}
		err = check_read(&memory, i);
		if (!err && writes_here(plan, step))
			err = check_write(&memory, i);
		if (!err && rd_step_sends(step))
			record_send(&memory, i);
	}
	free(memory.aliases);
	return err;
}
