#include "check/races.h"

#include <limits.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/grow.h"
#include "plan/print.h"

/* The end of a message without a FLUSH: its memory may be read until its rank's plan ends. */
#define NOT_YET INT_MAX

struct rd_access {
	int rank, step;
	int over; /* the step of its rank that it is over with: its own, or a FLUSH; or NOT_YET */
	enum rd_memory memory; /* the name it is accessed by: in place a cell may have two */
	bool writes;
	bool still; /* a copy onto itself in place: only out of place is it an access */
	int next; /* an earlier one to the same cell; -1: none */
};

/* ---- Clocks -------------------------------------------------------------------------------- */

static int *clock_of(const struct rd_races *races, int rank)
{
	return races->clocks + (size_t)rank * races->size;
}

/* Whether messages order the end of the access before the rank's next step. */
static bool is_behind(const struct rd_races *races, int rank, const struct rd_access *access)
{
	return access->rank == rank || clock_of(races, rank)[access->rank] > access->over;
}

int rd_races_send(struct rd_races *races, int rank, int *clock)
{
	size_t clock_size = races->size * sizeof(int);

	*clock = -1;
	if (!races->size)
		return 0;
	if (races->shared[rank] < 0 && !rd_grow(&races->snapshots, races->snapshot_count,
					       &races->snapshot_capacity, clock_size))
		return rd_fail(RONDO_MEMORY, "no memory to check plans");
	if (races->shared[rank] < 0) {
		races->shared[rank] = races->snapshot_count++;
		memcpy(races->snapshots + (size_t)races->shared[rank] * races->size,
			clock_of(races, rank), clock_size);
	}
	*clock = races->shared[rank];
	return 0;
}

/* All that came before the message at the sender now comes before the receiver's next step. */
static void merge(struct rd_races *races, int rank, int sender, int sent, int clock)
{
	int *mine = clock_of(races, rank);
	const int *theirs = races->snapshots + (size_t)clock * races->size;

	for (int i = 0; i < races->size; i++)
		mine[i] = theirs[i] > mine[i] ? theirs[i] : mine[i];
	if (mine[sender] <= sent)
		mine[sender] = sent + 1;
	races->shared[rank] = -1;
}

/* ---- Cells --------------------------------------------------------------------------------- */

/* Memory of a rank as it is in place: an output chunk is the input chunk at the same address, if
   there is one. */
static int cell_of(const struct rd_races *races, int owner, struct rd_where where)
{
	const struct rd_plan *plan = races->plans[owner];
	int first = races->first_cells[owner];
	int block = where.chunk / plan->parts;

	if (where.memory == RD_IN)
		return first + where.chunk;
	block = rd_alias_block(&plan->problem, block);
	if (block >= 0)
		return first + block * plan->parts + where.chunk % plan->parts;
	return first + rd_plan_chunks(plan, RD_IN) + where.chunk;
}

static const char *verb(const struct rd_access *access)
{
	if (access->writes)
		return "writing";
	return access->over == NOT_YET ? "sending" : "reading";
}

static int fail_race(const struct rd_races *races, const struct rd_access *access,
	const struct rd_access *other, int owner, struct rd_where where)
{
	char text[160];

	rd_step_print(&races->plans[other->rank]->steps[other->step], text, sizeof(text));
	return rd_step_wrong(races->plans[access->rank], access->step,
		"%sit %s %s[%d] of rank %d, which rank %d may still be %s (step %d, %s)",
		access->memory == other->memory ? "" : "in place, ",
		access->writes ? "writes" : "reads", where.memory == RD_IN ? "in" : "out",
		where.chunk, owner, other->rank, verb(other), other->step, text);
}

static int check_pair(const struct rd_races *races, const struct rd_access *access,
	const struct rd_access *earlier, int owner, struct rd_where where)
{
	bool one_name = access->memory == earlier->memory;

	if (!access->writes && !earlier->writes)
		return 0;
	if (!one_name && (access->still || earlier->still))
		return 0;
	if (!is_behind(races, access->rank, earlier))
		return fail_race(races, access, earlier, owner, where);
	if (!access->writes && !one_name)
		return rd_step_wrong(races->plans[access->rank], access->step,
			"in place, rank %d, step %d, has overwritten in[%d] of rank %d",
			earlier->rank, earlier->step, where.chunk, owner);
	return 0;
}

static int keep(struct rd_races *races, struct rd_access access, int cell)
{
	if (!rd_grow(
		    &races->accesses, races->access_count, &races->access_capacity, sizeof(access)))
		return rd_fail(RONDO_MEMORY, "no memory to check plans");
	access.next = races->heads[cell];
	races->heads[cell] = races->access_count;
	races->accesses[races->access_count++] = access;
	return 0;
}

static int record(struct rd_races *races, struct rd_access access, int owner, struct rd_where where)
{
	/* No other rank can address scratch. */
	if (where.memory != RD_IN && where.memory != RD_OUT)
		return 0;

	int cell = cell_of(races, owner, where);

	access.memory = where.memory;
	for (int a = races->heads[cell]; a >= 0; a = races->accesses[a].next) {
		int err = check_pair(races, &access, &races->accesses[a], owner, where);

		if (err)
			return err;
	}
	return keep(races, access, cell);
}

/* ---- Steps --------------------------------------------------------------------------------- */

/* The message of a step on its way has left the memory that it came from. */
static void end_send(struct rd_races *races, int rank, int step)
{
	const struct rd_plan *plan = races->plans[rank];
	int sent = plan->steps[step].sender;
	const struct rd_step *sender = &plan->steps[sent];
	struct rd_where from = sender->kind == RD_STEP_SEND ? sender->from : sender->into;

	if (from.memory != RD_IN && from.memory != RD_OUT)
		return;
	for (int a = races->heads[cell_of(races, rank, from)]; a >= 0;
		a = races->accesses[a].next) {
		struct rd_access *access = &races->accesses[a];

		if (access->rank == rank && access->step == sent && access->over == NOT_YET)
			access->over = step;
	}
}

/* A step that accesses this rank's memory alone. */
static int record_own(struct rd_races *races, int rank, int i)
{
	const struct rd_step *step = &races->plans[rank]->steps[i];
	struct rd_access access = { .rank = rank, .step = i, .over = i };
	bool sends = step->kind == RD_STEP_SEND;
	int err = 0;

	access.still = step->kind == RD_STEP_COPY && step->from.memory == RD_IN &&
		       step->into.memory == RD_OUT &&
		       cell_of(races, rank, step->from) == cell_of(races, rank, step->into);
	if (rd_step_reads(step)) {
		access.over = sends ? NOT_YET : i;
		err = record(races, access, rank, step->from);
	}
	access.over = i;
	access.writes = true;
	if (!err && rd_step_writes(step))
		err = record(races, access, rank, step->into);
	access.over = NOT_YET;
	access.writes = false;
	if (!err && !sends && rd_step_sends(step))
		err = record(races, access, rank, step->into);
	return err;
}

static int record_fetch(struct rd_races *races, int rank, int i)
{
	const struct rd_step *step = &races->plans[rank]->steps[i];
	struct rd_access access = { .rank = rank, .step = i, .over = i };
	int err = record(races, access, step->peer, step->from);

	access.writes = true;
	return err ? err : record(races, access, rank, step->into);
}

static int record_spread(struct rd_races *races, int rank, int i)
{
	const struct rd_plan *plan = races->plans[rank];
	const struct rd_step *step = &plan->steps[i];
	struct rd_access access = { .rank = rank, .step = i, .over = i };
	int err = record(races, access, step->peer, step->from);

	access.writes = true;
	for (int owner = 0; owner < races->size && !err; owner++)
		if (rd_spread_reaches(plan, step, owner))
			err = record(races, access, owner, step->into);
	return err;
}

/* Reads both before it writes either. */
static int record_swap(struct rd_races *races, int rank, int i)
{
	const struct rd_step *step = &races->plans[rank]->steps[i];
	struct rd_access access = { .rank = rank, .step = i, .over = i };
	const struct rd_where there = { RD_OUT, step->from.chunk },
			      here = { RD_IN, step->into.chunk };
	int err = record(races, access, step->peer, step->from);

	if (!err)
		err = record(races, access, rank, here);
	access.writes = true;
	if (!err)
		err = record(races, access, step->peer, there);
	return err ? err : record(races, access, rank, step->into);
}

/* Reads all before it writes any: block by block, but each in the same place. */
static int record_combine(struct rd_races *races, int rank, int i)
{
	const struct rd_step *step = &races->plans[rank]->steps[i];
	struct rd_access access = { .rank = rank, .step = i, .over = i };
	int err = 0;

	for (int owner = 0; owner < races->size && !err; owner++)
		err = record(races, access, owner, step->from);
	access.writes = true;
	for (int owner = 0; owner < races->size && !err; owner++)
		if (step->to < 0 || step->to == owner)
			err = record(races, access, owner, step->into);
	return err;
}

int rd_races_step(struct rd_races *races, int rank, int step)
{
	if (!races->size)
		return 0;
	switch (races->plans[rank]->steps[step].kind) {
	case RD_STEP_FLUSH:
		end_send(races, rank, step);
		return 0;
	case RD_STEP_FETCH:
		return record_fetch(races, rank, step);
	case RD_STEP_SWAP:
		return record_swap(races, rank, step);
	case RD_STEP_SPREAD:
		return record_spread(races, rank, step);
	case RD_STEP_COMBINE:
		return record_combine(races, rank, step);
	default:
		return record_own(races, rank, step);
	}
}

int rd_races_receive(struct rd_races *races, int rank, int step, int sender, int sent, int clock)
{
	enum rd_step_kind kind;
	bool lands;
	int err = 0;

	if (!races->size)
		return 0;
	kind = races->plans[rank]->steps[step].kind;
	/* A message may land as it arrives: the memory is the link's until all of it has. */
	lands = kind == RD_STEP_RECV || kind == RD_STEP_FORWARD;
	if (lands)
		err = record_own(races, rank, step);
	merge(races, rank, sender, sent, clock);
	return lands ? err : record_own(races, rank, step);
}

static int check_end(const struct rd_races *races, int rank, const struct rd_access *access)
{
	char text[160];

	if (is_behind(races, rank, access))
		return 0;
	rd_step_print(&races->plans[access->rank]->steps[access->step], text, sizeof(text));
	return rd_fail(RONDO_INVALID,
		"rank %d may end while rank %d may still be %s its memory (step %d, %s)", rank,
		access->rank, verb(access), access->step, text);
}

int rd_races_end(const struct rd_races *races)
{
	int err = 0;

	for (int rank = 0; rank < races->size; rank++)
		for (int cell = races->first_cells[rank]; cell < races->first_cells[rank + 1];
			cell++)
			for (int a = races->heads[cell]; a >= 0 && !err;
				a = races->accesses[a].next)
				err = check_end(races, rank, &races->accesses[a]);
	return err;
}

/* ---- Creating and freeing it --------------------------------------------------------------- */

int rd_races_init(struct rd_races *races, struct rd_plan *const *plans, int size)
{
	int cells = 0;
	bool direct_access = false;

	*races = (struct rd_races){ .plans = plans };
	for (int rank = 0; rank < size; rank++)
		direct_access |= plans[rank]->direct_access;
	if (!direct_access)
		return 0;
	races->size = size;
	races->clocks = calloc((size_t)size * size, sizeof(*races->clocks));
	races->shared = malloc(size * sizeof(*races->shared));
	races->first_cells = malloc((size + 1) * sizeof(*races->first_cells));
	if (!races->clocks || !races->shared || !races->first_cells)
		return rd_fail(RONDO_MEMORY, "no memory to check plans for %d ranks", size);
	for (int rank = 0; rank < size; rank++) {
		races->shared[rank] = -1;
		races->first_cells[rank] = cells;
		cells += rd_plan_chunks(plans[rank], RD_IN) + rd_plan_chunks(plans[rank], RD_OUT);
	}
	races->first_cells[size] = cells;
	/* One more: an allocation of nothing may give NULL. */
	races->heads = malloc((cells + 1) * sizeof(*races->heads));
	if (!races->heads)
		return rd_fail(RONDO_MEMORY, "no memory to check plans for %d ranks", size);
	memset(races->heads, 0xff, cells * sizeof(*races->heads)); /* -1 */
	return 0;
}

void rd_races_finish(struct rd_races *races)
{
	free(races->clocks);
	free(races->shared);
	free(races->snapshots);
	free(races->first_cells);
	free(races->heads);
	free(races->accesses);
}
